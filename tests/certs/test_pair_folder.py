"""The files, exchanged as a pair."""

from __future__ import annotations

import stat
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import EcForge
from certs.files import PairFolder
from certs.kept import Leaf, Reason
from tests.certs.forging import POLICY, START

FORGE = EcForge()
AUTHORITY = FORGE.authority(reason=Reason.MISSING, now=START, policy=POLICY)


def leaf() -> Leaf:
    return FORGE.leaf(AUTHORITY, reason=Reason.MISSING, now=START, policy=POLICY)


def test_the_files_are_where_a_mounted_secret_has_them(tmp_path: Path) -> None:
    """`tls.crt` and `tls.key`, readable through links."""
    folder, first = PairFolder(tmp_path / "tls"), leaf()
    assert folder.read() is None
    assert folder.write(first)
    assert (tmp_path / "tls/tls.crt").read_bytes() == first.certificate
    assert (tmp_path / "tls/tls.key").read_bytes() == first.key
    assert (tmp_path / "tls/..data").is_symlink()


def test_the_key_is_for_user_and_group_only(tmp_path: Path) -> None:
    """The group is the pod's."""
    PairFolder(tmp_path).write(leaf())
    modes = {
        name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("tls.crt", "tls.key")
    }
    assert modes == {"tls.crt": 0o644, "tls.key": 0o640}


def test_the_same_pair_is_not_written_again(tmp_path: Path) -> None:
    """A reader that watches for changes sees none."""
    folder, first = PairFolder(tmp_path), leaf()
    assert folder.write(first)
    before = (tmp_path / "..data").readlink()
    assert not PairFolder(tmp_path).write(first)
    assert (tmp_path / "..data").readlink() == before


def test_the_pair_before_stays_for_readers_that_began_with_it(tmp_path: Path) -> None:
    """Only that one: older ones are removed."""
    folder = PairFolder(tmp_path)
    began = []
    for _ in range(4):
        folder.write(leaf())
        began.append((tmp_path / "..data").resolve())
    assert [path.exists() for path in began] == [False, False, True, True]


def test_what_a_crash_left_is_no_obstacle(tmp_path: Path) -> None:
    """Half a folder, a dangling link, plain files where links should be."""
    (tmp_path / "..pair-dead").mkdir()
    (tmp_path / "..data_next").symlink_to("..pair-dead")
    (tmp_path / "..data").symlink_to("..pair-gone")
    (tmp_path / "tls.crt").write_text("old")
    first = leaf()
    assert PairFolder(tmp_path).write(first)
    assert (tmp_path / "tls.crt").read_bytes() == first.certificate
    assert not (tmp_path / "..pair-dead").exists()


def test_a_reader_never_sees_one_certificate_with_another_s_key(tmp_path: Path) -> None:
    """While pairs are exchanged as fast as they can be."""
    folder = PairFolder(tmp_path)
    pairs = [leaf() for _ in range(20)]
    folder.write(pairs[0])
    ended = threading.Event()
    seen: set[tuple[bytes, bytes]] = set()

    def read() -> None:
        while not ended.is_set():
            pair = folder.read()
            assert pair is not None
            seen.add(pair)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(10):
        for pair in pairs:
            folder.write(pair)
    ended.set()
    reader.join()
    assert len(seen) > 1
    assert seen <= {(pair.certificate, pair.key) for pair in pairs}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """And nothing is left half done."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        PairFolder(tmp_path / "file" / "tls").write(leaf())


def test_certificates_are_as_documented() -> None:
    """P-256, both names, no more than the asked life, begun before now."""
    made = leaf()
    read = x509.load_pem_x509_certificate(made.certificate)
    assert made.names == POLICY.names
    assert made.not_after - made.not_before == POLICY.leaf_life
    assert made.not_before == START - timedelta(hours=1)
    assert AUTHORITY.not_after - AUTHORITY.not_before == timedelta(days=365)
    assert read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    usage = read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert load_pem_private_key(made.key, None).public_key() == read.public_key()
    assert read.public_key().key_size == 256  # type: ignore[union-attr]
