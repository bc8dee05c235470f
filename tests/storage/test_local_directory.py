"""The local backend: plain trees, planted links, crashed writers, full and closed volumes."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import tarfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from storage.backend import (
    ConfigError,
    DeniedError,
    ExistsError,
    InvalidKeyError,
    NotFoundError,
    StorageError,
    UnavailableError,
)
from storage.local import LocalBackend
from storage.local.names import TEMPORARY_FOLDER
from storage.local.writing import STALE_S
from tests.storage.contract import REPOSITORY

SAMPLES = REPOSITORY / "tests" / "samples" / "kuberay-sessions.tar.gz"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The directory of the backend, with room beside it."""
    place = tmp_path / "volume"
    place.mkdir()
    return place


def _keys(backend: LocalBackend, prefix: str = "") -> list[str]:
    return [item.key for item in backend.list(prefix) if hasattr(item, "key")]


def test_ordinary_keys_are_plain_files(place: Path) -> None:
    """Any tool reads the tree: the path is the key."""
    for key in ("a/restful__x?detail=1&limit=10", "b c/ü=,/AQAAAA==", "d/.hidden"):
        LocalBackend(place).put(key, b"x")
        assert (place / key).read_bytes() == b"x"


def test_a_tree_that_kuberay_wrote_is_read_as_it_is(place: Path) -> None:
    """Each file of the real sample is an object of its path, but for the folder markers."""
    with tarfile.open(SAMPLES) as tar:
        tar.extractall(place, filter="data")
    (tree,) = place.rglob("tree")
    backend = LocalBackend(tree)
    files = {
        path.relative_to(tree).as_posix(): path
        for path in tree.rglob("*")
        if path.is_file() and path.name != ".dir-marker"
    }
    assert len(files) > 200
    assert _keys(backend) == sorted(files)
    for key, path in files.items():
        assert b"".join(backend.get(key)) == path.read_bytes()
    rooted = LocalBackend(tree, root="log")
    assert _keys(rooted) == [k.removeprefix("log/") for k in sorted(files) if k.startswith("log/")]


def test_the_root_prefix_bounds_every_call(place: Path) -> None:
    """What lies beside the root can be neither seen nor changed."""
    outside = LocalBackend(place)
    outside.put("log-2/k", b"other")
    outside.put("k", b"other")
    rooted = LocalBackend(place, root="log")
    rooted.put("k", b"mine")
    assert (place / "log" / "k").read_bytes() == b"mine"
    assert _keys(rooted) == ["k"]
    assert b"".join(rooted.get_range("k", 1)) == b"ine"
    rooted.delete("k")
    assert _keys(outside) == ["k", "log-2/k"]
    with pytest.raises(NotFoundError):
        rooted.head("k")


@pytest.mark.parametrize("root", ["..", "a/../b", "a//b", "nul\0", "x" * 1100])
def test_a_hostile_root_prefix_is_a_setting_error(place: Path, root: str) -> None:
    """Found at start."""
    with pytest.raises(ConfigError, match="root dir"):
        LocalBackend(place, root=root)


def test_a_missing_directory_is_never_created(tmp_path: Path) -> None:
    """It may be a volume that is not mounted: say so at start, or when it goes away."""
    with pytest.raises(ConfigError, match="mount"):
        LocalBackend(tmp_path / "missing")
    place = tmp_path / "volume"
    place.mkdir()
    backend = LocalBackend(place)
    place.rmdir()
    calls: list[Callable[[], object]] = [
        lambda: backend.put("k", b"x"),
        lambda: list(backend.get("k")),
        lambda: backend.head("k"),
        lambda: list(backend.list("")),
        lambda: backend.delete("k"),
    ]
    for call in calls:
        with pytest.raises(UnavailableError):
            call()
    assert not place.exists()


def test_nothing_is_put_where_a_volume_was_mounted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its empty mount point would take it, and lose it with the pod."""
    mounted = [True]
    monkeypatch.setattr(Path, "is_mount", lambda path: mounted[0] and path == place.resolve())
    backend = LocalBackend(place)
    backend.put("a", b"1")
    mounted[0] = False
    with pytest.raises(UnavailableError, match="not mounted any more"):
        backend.put("b", b"2")
    assert not (place / "b").exists()
    mounted[0] = True
    backend.put("b", b"2")


def test_an_object_cannot_lie_below_another(place: Path) -> None:
    """Unlike in a bucket: refused with the reason, both ways round, also create-only."""
    backend = LocalBackend(place)
    backend.put("a", b"")
    backend.put("b/c", b"")
    for key, create_only in (("a/x", False), ("a/x", True), ("b", False), ("b", True)):
        with pytest.raises(InvalidKeyError, match=f"{key}: .*at or below the name of another"):
            backend.put(key, b"", create_only=create_only)
    assert _keys(backend) == ["a", "b/c"]


def test_planted_links_lead_nowhere(place: Path, tmp_path: Path) -> None:
    """Links to files and folders outside are not read, listed, written through or followed."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "token").write_bytes(b"secret")
    (place / "s").mkdir()
    (place / "s" / "file").symlink_to(secret / "token")
    (place / "s" / "folder").symlink_to(secret)
    backend = LocalBackend(place)
    assert list(backend.list("")) == []
    assert list(backend.list("s/folder/")) == []
    assert list(backend.list("", delimiter="/")) == []
    for key in ("s/file", "s/folder/token", "s/folder"):
        with pytest.raises(NotFoundError):
            list(backend.get(key))
        with pytest.raises(NotFoundError):
            backend.head(key)
        backend.delete(key)
    with pytest.raises(InvalidKeyError, match="symbolic links"):
        backend.put("s/folder/new", b"x")
    backend.put("s/file", b"mine")
    assert (secret / "token").read_bytes() == b"secret"
    assert [path.name for path in secret.iterdir()] == ["token"]
    assert (place / "s" / "folder").is_symlink()


def test_pipes_and_undecodable_names_are_no_objects(place: Path) -> None:
    """A planted FIFO does not block a reader; a name that is no text is passed over."""
    os.mkfifo(place / "pipe")
    (place / os.fsdecode(b"\xff")).write_bytes(b"x")
    (place / "line\nbreak").write_bytes(b"x")
    backend = LocalBackend(place)
    assert list(backend.list("")) == []
    with pytest.raises(NotFoundError):
        list(backend.get("pipe"))


def test_only_canonical_encodings_are_listed(place: Path) -> None:
    """A planted name in our encoding cannot shadow or repeat an ordinary key."""
    (place / ".rayhistory=plain").write_bytes(b"x")
    (place / ".rayhistory+ab").mkdir()
    (place / ".rayhistory+ab" / ".rayhistory=c").write_bytes(b"x")
    backend = LocalBackend(place)
    backend.put(".dir-marker", b"ours")
    assert _keys(backend) == [".dir-marker"]


def test_a_crashed_writers_file_goes_when_it_is_old(place: Path) -> None:
    """It is never listed; a later writer removes it, but no file that is still being written."""
    temporary = place / TEMPORARY_FOLDER
    temporary.mkdir()
    (temporary / "dead").write_bytes(b"x" * 100)
    (temporary / "alive").write_bytes(b"x" * 100)
    old_s = (temporary / "alive").stat().st_mtime - STALE_S - 60
    os.utime(temporary / "dead", (old_s, old_s))
    backend = LocalBackend(place)
    assert list(backend.list("")) == []
    backend.put("k", b"x")
    assert [path.name for path in temporary.iterdir()] == ["alive"]


def test_no_temporary_file_stays_after_any_put(place: Path) -> None:
    """Neither after success nor after a refusal."""
    backend = LocalBackend(place)
    backend.put("k", b"x")
    backend.put("c", b"x", create_only=True)
    with pytest.raises(ExistsError):
        backend.put("c", b"x", create_only=True)
    with pytest.raises(InvalidKeyError):
        backend.put("k/below", b"x")
    assert list((place / TEMPORARY_FOLDER).iterdir()) == []


@pytest.mark.parametrize(
    ("number", "expected", "advice"),
    [
        (errno.ENOSPC, UnavailableError, "free space"),
        (errno.EDQUOT, UnavailableError, "free space"),
        (errno.EIO, UnavailableError, "try again"),
        (errno.EACCES, DeniedError, "right to the storage directory"),
        (errno.EROFS, DeniedError, "read-write"),
    ],
)
@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_what_the_volume_refuses_is_a_typed_error(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    expected: type[StorageError],
    advice: str,
    call: str,
) -> None:
    """Full, closed and broken volumes: the key, what to do, and nothing of the object stays."""
    backend = LocalBackend(place)
    backend.put("dir/k", b"old")

    def refuse(*_args: Any, **_kwargs: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(expected, match=rf"dir/k: .*{advice}"):
            backend.put("dir/k", b"new")
    assert b"".join(backend.get("dir/k")) == b"old"
    assert list((place / TEMPORARY_FOLDER).iterdir()) == []


@pytest.fixture
def no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume as SMB and some FUSE file systems are, and slow to rename."""
    rename = os.rename

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    def slow(*args: Any, **kwargs: Any) -> None:
        time.sleep(0.02)
        rename(*args, **kwargs)

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "rename", slow)


@pytest.mark.usefixtures("no_hard_links")
def test_without_hard_links_exactly_one_still_creates(place: Path) -> None:
    """A claim file decides instead."""
    backend = LocalBackend(place)
    barrier = threading.Barrier(6)

    def create(number: int) -> bool:
        barrier.wait()
        try:
            backend.put("race/k", str(number).encode(), create_only=True)
        except ExistsError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(create, range(6)))
    assert won.count(True) == 1
    assert b"".join(backend.get("race/k")) == str(won.index(True)).encode()
    assert list((place / TEMPORARY_FOLDER).iterdir()) == []


@pytest.mark.usefixtures("no_hard_links")
def test_a_dead_claimers_claim_is_told_and_goes_when_old(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody breaks a claim that may be alive; the sweep takes it after an hour."""
    monkeypatch.setattr("storage.local.writing._CLAIM_WAIT_S", 0.05)
    claim = place / TEMPORARY_FOLDER / f"claim-{hashlib.sha256(b'k').hexdigest()}"
    claim.parent.mkdir()
    claim.touch()
    with pytest.raises(UnavailableError, match="k: another writer is creating it"):
        LocalBackend(place).put("k", b"x", create_only=True)
    old_s = time.time() - STALE_S - 60
    os.utime(claim, (old_s, old_s))
    LocalBackend(place).put("other", b"x")
    LocalBackend(place).put("k", b"x", create_only=True)
    assert (place / "k").read_bytes() == b"x"


def test_deleting_the_last_object_removes_the_folders(place: Path) -> None:
    """Those of live segments would stay for ever; a folder in use, and the directory, stay."""
    backend = LocalBackend(place)
    backend.put("a/b/c/k", b"")
    backend.put("a/k", b"")
    backend.delete("a/b/c/k")
    assert not (place / "a" / "b").exists()
    backend.delete("a/k")
    assert [path.name for path in place.iterdir()] == [TEMPORARY_FOLDER]


def test_a_lost_answer_of_nfs_is_no_refusal(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link was made, the client tried again and found it: the put has succeeded."""
    link = os.link

    def made_but_refused(*args: Any, **kwargs: Any) -> None:
        link(*args, **kwargs)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "link", made_but_refused)
    LocalBackend(place).put("k", b"x", create_only=True)
    assert (place / "k").read_bytes() == b"x"


def test_a_listing_reads_only_folders_that_can_match(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prefix narrows and start_after skips, so a deep tree costs what is asked of it."""
    backend = LocalBackend(place)
    for session in range(5):
        for node in range(5):
            backend.put(f"s{session}/n{node}/file", b"")
    scanned = 0
    scandir = os.scandir

    def counting(*args: Any) -> Any:
        nonlocal scanned
        scanned += 1
        return scandir(*args)

    monkeypatch.setattr(os, "scandir", counting)
    assert _keys(backend, "s3/n2/") == ["s3/n2/file"]
    assert scanned == 1
    scanned = 0
    assert len(list(backend.list("", start_after="s4/n2/file"))) == 2
    assert scanned <= 5  # top, s4, its n2, n3 and n4
    scanned = 0
    assert len(list(backend.list("s1/", delimiter="/"))) == 5
    assert scanned <= 6


def test_deep_planted_folders_are_not_walked_for_ever(place: Path) -> None:
    """Below what a key can be, nothing is looked at."""
    folder = os.open(place, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 3, dir_fd=folder)
        inner = os.open("d" * 3, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    backend = LocalBackend(place)
    assert list(backend.list("")) == []
    assert list(backend.list("", delimiter="/")) == []


def test_a_backend_can_be_sent_to_another_process(place: Path) -> None:
    """Compiling happens in subprocesses."""
    backend = LocalBackend(place, root="log")
    backend.put("k", b"x")
    assert b"".join(pickle.loads(pickle.dumps(backend)).get("k")) == b"x"


def test_no_descriptor_is_left_open(place: Path) -> None:
    """Reads and listings that are left half-way included."""
    backend = LocalBackend(place)
    for number in range(10):
        backend.put(f"a/{number}/k", b"x" * 600_000)
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    for _ in range(5):
        next(backend.get("a/1/k"))
        next(iter(backend.list("a/")))
        list(backend.list("a/", delimiter="/"))
        with pytest.raises(NotFoundError):
            list(backend.get("a/1"))
        with pytest.raises(InvalidKeyError):
            backend.put("a/1/k/x", b"")
    assert len(list(descriptors.iterdir())) == before
