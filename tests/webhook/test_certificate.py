"""The serving certificate and its exchange."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from tests.webhook.review_kit import SERVER_NAME
from tests.webhook.webhook_process import Certificates
from webhook.certificate import ServingCertificate
from webhook.certificate_dates import not_after_s
from webhook.metrics import WebhookMetrics
from webhook.settings import Tls

ECDSA = trustme.KeyType.ECDSA


@pytest.fixture
def files(tmp_path: Path) -> Certificates:
    """A pair of files."""
    return Certificates(tmp_path / "tls")


def serving(folder: Path) -> ServingCertificate:
    """A certificate over the files."""
    tls = Tls(cert_file=f"{folder}/tls.crt", key_file=f"{folder}/tls.key")
    return ServingCertificate(tls, WebhookMetrics())


def test_new_files_are_taken_as_a_new_context(files: Certificates) -> None:
    """The old one is left as it is for handshakes that run; the same files change nothing."""
    certificate = serving(files.folder)
    assert certificate.refresh()
    first = certificate.context()
    assert certificate.refresh()
    assert certificate.context() is first
    files.rotate()
    assert certificate.refresh()
    assert certificate.context() is not first


def test_without_files_there_is_no_handshake_but_a_reason(tmp_path: Path) -> None:
    """They may come later: another container writes them."""
    certificate = serving(tmp_path)
    assert not certificate.refresh()
    assert "yet" in certificate.problem()
    assert certificate.not_after_s() == 0
    with pytest.raises(ssl.SSLError):
        certificate.context()


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nAA==\n", None])
def test_bad_files_leave_the_old_certificate(
    files: Certificates, name: str, content: bytes | None
) -> None:
    """Broken, empty, or another's key: counted, and served on."""
    metrics = WebhookMetrics()
    tls = Tls(cert_file=f"{files.folder}/tls.crt", key_file=f"{files.folder}/tls.key")
    certificate = ServingCertificate(tls, metrics)
    certificate.refresh()
    first = certificate.context()
    if content is None:
        other = trustme.CA(key_type=ECDSA).issue_cert("x", key_type=ECDSA)
        content = (
            other.private_key_pem.bytes() if name == "tls.key" else other.cert_chain_pems[0].bytes()
        )
    (files.folder / name).write_bytes(content)
    assert not certificate.refresh()
    assert certificate.context() is first
    assert certificate.problem() == ""
    failed = metrics.registry.get_sample_value(
        "rayhistory_webhook_certificate_reloads_total", {"outcome": "failed"}
    )
    assert failed == 1


def test_an_expired_certificate_is_a_problem(tmp_path: Path) -> None:
    """It is served all the same: the API server may be the one whose clock is wrong."""
    folder = tmp_path / "old"
    folder.mkdir()
    past = datetime.now(UTC) - timedelta(minutes=1)
    leaf = trustme.CA(key_type=ECDSA).issue_cert(SERVER_NAME, not_after=past, key_type=ECDSA)
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    certificate = serving(folder)
    assert certificate.refresh()
    assert certificate.problem() == "the certificate has expired"
    assert certificate.context()


@pytest.mark.parametrize("year", [2031, 2049, 2050, 2199])
@pytest.mark.parametrize("kind", list(trustme.KeyType))
def test_the_end_is_read_from_the_certificate(year: int, kind: trustme.KeyType) -> None:
    """Both forms of time (RFC 5280 changes over in 2050) and both kinds of keys."""
    end = datetime(year, 3, 4, 5, 6, 7, tzinfo=UTC)
    leaf = trustme.CA(key_type=kind).issue_cert("a.example", not_after=end, key_type=kind)
    pem = leaf.cert_chain_pems[0].bytes()
    assert not_after_s(b"some text\n" + pem + pem) == end.timestamp()
    assert x509.load_pem_x509_certificate(pem).not_valid_after_utc == end


@pytest.mark.parametrize("cut", [0, 5, 40, 100])
def test_half_a_certificate_has_no_end(cut: int) -> None:
    """An error that says so, whatever is missing."""
    leaf = trustme.CA(key_type=ECDSA).issue_cert("a.example", key_type=ECDSA)
    der = ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())
    with pytest.raises(ValueError):
        not_after_s(ssl.DER_cert_to_PEM_cert(der[:cut]).encode())
