"""Keys and certificates of a Kubernetes that lives as long as a test run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SERVER = "server"
"""`server.crt` and `server.key`: what the API server shows. It is its own CA."""
ACCOUNTS = "accounts"
"""`accounts.key` signs ServiceAccounts' tokens, `accounts.pub` checks them."""
KUBELET_CLIENT = "kubelet-client"
"""With this the API server calls kubelets, which trust it as its own CA."""


def write_server(folder: Path, *, names: Sequence[str], addresses: Sequence[str]) -> None:
    """The API server's pair."""
    alternatives = [
        *(x509.DNSName(name) for name in names),
        *(x509.IPAddress(ip_address(address)) for address in addresses),
    ]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test API server")])
    _write_pair(folder, SERVER, subject, alternatives)


def write_kubelet_client(folder: Path) -> None:
    """The API server's pair towards kubelets; an administrator's."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver-kubelet-client"),
        ]
    )
    _write_pair(folder, KUBELET_CLIENT, subject, [])


def write_accounts(folder: Path) -> None:
    """The key pair of ServiceAccounts' tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / f"{ACCOUNTS}.key", key)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / f"{ACCOUNTS}.pub").write_bytes(public)


def _write_pair(
    folder: Path, stem: str, subject: x509.Name, alternatives: Sequence[x509.GeneralName]
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    (folder / f"{stem}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(folder / f"{stem}.key", key)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
