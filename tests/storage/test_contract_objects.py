"""Every backend: single objects are stored whole, read in parts, told of and removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.backend import (
    Backend,
    ExistsError,
    IntegrityError,
    InvalidKeyError,
    NotFoundError,
    read_all,
)
from tests.storage.contract import MEBIBYTE, Store, numbered_chunks, numbered_digest

CONTENT = bytes(range(256)) * 40

STRANGE_KEYS = [
    "plain",
    "with space/and  two",
    "plus+percent%20%2F/&=,;:@!$'()*~",
    "query?detail=1&limit=10000#part",
    "ünïcode/日本語/🚀/e\u0301",
    "back\\slash",
    "-dash/_under/.hidden/...",
    "AQAAAA==",
    "trailing.dots...",
    ".dir-marker/.nfs0001/lost+found/.rayhistory-tmp/.rayhistory=x/.rayhistory+y/z",
    "/".join(["deep"] * 100),
    "p" * 255,
    "é" * 127 + "ab",
    "é" * 450,
    "long/" + "x" * 890 + "/tail",
]

BAD_KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/.", "nul\0", "line\nbreak"]
BAD_KEYS += ["k" * 1024, "\udc80"]


def _get(backend: Backend, key: str) -> bytes:
    return b"".join(backend.get(key))


def test_a_put_object_is_read_back_and_told_of(backend: Backend) -> None:
    """put, get and head agree."""
    put = backend.put("a/b.bin", CONTENT)
    head = backend.head("a/b.bin")
    assert _get(backend, "a/b.bin") == CONTENT
    assert head == put
    assert (head.key, head.size_bytes) == ("a/b.bin", len(CONTENT))
    assert head.modified_ms > 1_600_000_000_000
    assert head.etag


@pytest.mark.parametrize("key", STRANGE_KEYS)
def test_strange_keys_are_kept_as_they_are(backend: Backend, key: str) -> None:
    """Unicode, blanks, signs, long and reserved names come back unchanged."""
    backend.put(key, b"x")
    assert _get(backend, key) == b"x"
    assert backend.head(key).key == key
    assert [item.key for item in backend.list("") if hasattr(item, "key")] == [key]
    backend.delete(key)
    assert list(backend.list("")) == []


@pytest.mark.parametrize(
    "key",
    BAD_KEYS,
)
def test_keys_that_not_every_store_can_hold_are_refused(backend: Backend, key: str) -> None:
    """Every call says so with a typed error, and nothing is stored."""
    with pytest.raises(InvalidKeyError):
        backend.put(key, b"x")
    with pytest.raises(InvalidKeyError):
        list(backend.get(key))
    with pytest.raises(InvalidKeyError):
        list(backend.get_range(key, 0))
    with pytest.raises(InvalidKeyError):
        backend.head(key)
    with pytest.raises(InvalidKeyError):
        backend.delete(key)
    assert list(backend.list("")) == []


def test_a_put_replaces_and_changes_the_etag(backend: Backend) -> None:
    """The last writer's object is there, with another etag."""
    first = backend.put("k", b"old")
    second = backend.put("k", b"new")
    assert _get(backend, "k") == b"new"
    assert first.etag != second.etag


def test_create_only_does_not_replace(backend: Backend) -> None:
    """The second create-only put fails, names the key, and the first content stays."""
    backend.put("dir/k", b"first", create_only=True)
    with pytest.raises(ExistsError, match="dir/k"):
        backend.put("dir/k", b"second", create_only=True)
    assert _get(backend, "dir/k") == b"first"


def test_an_empty_object_is_an_object(backend: Backend) -> None:
    """Markers have no content."""
    backend.put("marker", b"")
    assert _get(backend, "marker") == b""
    assert list(backend.get_range("marker", 0, 10)) == []
    assert list(backend.get_range("marker", -5)) == []
    assert backend.head("marker").size_bytes == 0


def test_a_file_is_put_by_its_path(backend: Backend, tmp_path: Path) -> None:
    """A Path is streamed as the content of the file."""
    source = tmp_path / "source.log"
    source.write_bytes(CONTENT)
    assert backend.put("from/file", source).size_bytes == len(CONTENT)
    assert _get(backend, "from/file") == CONTENT


def test_an_iterator_of_unknown_length_is_put(backend: Backend) -> None:
    """Chunks of any size, empty ones too, are joined."""
    assert backend.put("k", iter([b"a", b"", b"bc", b"d" * 1000])).size_bytes == 1003
    assert _get(backend, "k") == b"abc" + b"d" * 1000


def test_an_iterator_that_raises_leaves_nothing(backend: Backend) -> None:
    """The iterator's own error comes out; no object, or the old one, is there."""

    def body() -> Iterator[bytes]:
        yield b"x" * MEBIBYTE
        raise RuntimeError("source broke")

    with pytest.raises(RuntimeError, match="source broke"):
        backend.put("new", body())
    backend.put("old", b"whole")
    with pytest.raises(RuntimeError, match="source broke"):
        backend.put("old", body())
    assert _get(backend, "old") == b"whole"
    assert [item.key for item in backend.list("") if hasattr(item, "key")] == ["old"]


def test_a_missing_source_file_is_the_callers_error(backend: Backend, tmp_path: Path) -> None:
    """It is no storage error, and nothing is stored."""
    with pytest.raises(FileNotFoundError):
        backend.put("k", tmp_path / "nowhere")
    assert list(backend.list("")) == []


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, None, CONTENT),
        (0, 10, CONTENT[:10]),
        (100, 50, CONTENT[100:150]),
        (5, 0, b""),
        (0, 10**12, CONTENT),
        (len(CONTENT) - 3, 100, CONTENT[-3:]),
        (len(CONTENT), None, b""),
        (len(CONTENT) + 7, 5, b""),
        (-10, None, CONTENT[-10:]),
        (-10, 4, CONTENT[-10:-6]),
        (-(10**9), None, CONTENT),
    ],
)
def test_ranges(backend: Backend, start: int, length: int | None, expected: bytes) -> None:
    """A part from the start, the middle, the tail; none past the end; all when asked too much."""
    backend.put("k", CONTENT)
    assert b"".join(backend.get_range("k", start, length)) == expected


def test_what_is_not_there_is_a_typed_error(backend: Backend) -> None:
    """get, get_range and head name the key that they did not find."""
    backend.put("there/x", b"")
    for key in ("missing", "there", "there/x/below", "there/y"):
        with pytest.raises(NotFoundError, match=key):
            list(backend.get(key))
        with pytest.raises(NotFoundError, match=key):
            list(backend.get_range(key, 0, 1))
        with pytest.raises(NotFoundError, match=key):
            backend.head(key)


def test_delete_removes_and_is_no_error_twice(backend: Backend) -> None:
    """A missing object is deleted without complaint; neighbours stay."""
    backend.put("a/x", b"1")
    backend.put("a/y", b"2")
    for key in ("a/x", "a/x", "never/was", "a", "a/y/below"):
        backend.delete(key)
    assert [item.key for item in backend.list("") if hasattr(item, "key")] == ["a/y"]


def test_a_large_object_is_streamed_in_bounded_memory(store: Store) -> None:
    """64 MiB in from an iterator and out again cost a process less than 16 MiB."""
    with store.process("stream", "large/object") as process:
        output, _ = process.communicate(timeout=60)
    grown_kib, digest = output.split()
    assert digest == numbered_digest(64)
    assert int(grown_kib) < 16 * 1024


def test_a_small_object_is_read_whole_but_never_more(backend: Backend) -> None:
    """read_all refuses what is larger than it may be."""
    backend.put("k", numbered_chunks(2))
    assert len(read_all(backend, "k", max_bytes=2 * MEBIBYTE)) == 2 * MEBIBYTE
    with pytest.raises(IntegrityError, match="k"):
        read_all(backend, "k", max_bytes=2 * MEBIBYTE - 1)


def test_other_openings_see_the_same_objects(store: Store) -> None:
    """What one program stored, another reads."""
    store.open().put("k", b"shared")
    assert _get(store.open(), "k") == b"shared"


def test_a_read_goes_on_with_the_object_it_began(backend: Backend) -> None:
    """Replacing an object while it is read gives the old or the new one, never a mix."""
    backend.put("k", b"a" * MEBIBYTE)
    chunks = backend.get("k")
    first = next(chunks)
    backend.put("k", b"b" * MEBIBYTE)
    assert set(first + b"".join(chunks)) == {ord("a")}
