"""Every backend: listings are in byte order, by prefix, by folder, and from any key on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.backend import Backend, CommonPrefix, ObjectInfo
from tests.storage.contract import FACTORIES


def _names(items: Iterator[ObjectInfo | CommonPrefix]) -> list[str]:
    return [item.key if isinstance(item, ObjectInfo) else item.prefix for item in items]


def _expected(
    keys: set[str], prefix: str, delimiter: str | None, start_after: str | None
) -> list[str]:
    """What a listing is, said as simply as can be."""
    names = set()
    for key in keys:
        if key.startswith(prefix):
            at = key.find(delimiter, len(prefix)) if delimiter else -1
            names.add(key if at < 0 else key[: at + len(str(delimiter))])
    return sorted(
        (n for n in names if start_after is None or n.encode() > start_after.encode()),
        key=str.encode,
    )


def test_three_thousand_keys_in_order(backend: Backend) -> None:
    """More keys than a page of any store come complete, in byte order, and from any key on."""
    keys = sorted(f"s/{number % 7}/part-{number:05d}" for number in range(3000))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: backend.put(key, b"x"), keys))
    assert _names(backend.list("")) == keys
    assert _names(backend.list("s/3/")) == [key for key in keys if key.startswith("s/3/")]
    assert _names(backend.list("s/", start_after=keys[1234])) == keys[1235:]
    assert _names(backend.list("s/", delimiter="/")) == [f"s/{number}/" for number in range(7)]
    assert next(iter(backend.list("s/", start_after="s/6/part-02"))) == backend.head(
        next(key for key in keys if key > "s/6/part-02")
    )


def test_a_prefix_is_no_folder(backend: Backend) -> None:
    """`foo` matches `foo-2` too, `foo/` does not; folders sort with their slash."""
    for key in ("foo/a", "foo-2/a", "foo.txt", "foo0", "fo"):
        backend.put(key, b"")
    assert _names(backend.list("foo")) == ["foo-2/a", "foo.txt", "foo/a", "foo0"]
    assert _names(backend.list("foo/")) == ["foo/a"]
    assert _names(backend.list("foo", delimiter="/")) == ["foo-2/", "foo.txt", "foo/", "foo0"]
    assert _names(backend.list("", delimiter="/")) == ["fo", "foo-2/", "foo.txt", "foo/", "foo0"]


def test_paging_by_folders(backend: Backend) -> None:
    """start_after the last common prefix goes on behind the whole folder."""
    for key in ("a/1", "a/2", "b/1", "c"):
        backend.put(key, b"")
    assert _names(backend.list("", delimiter="/", start_after="a/")) == ["b/", "c"]
    assert _names(backend.list("", delimiter="/", start_after="a/1")) == ["b/", "c"]
    assert _names(backend.list("", start_after="a/")) == ["a/1", "a/2", "b/1", "c"]


def test_listed_objects_are_told_of_as_head_does(backend: Backend) -> None:
    """Size, time and etag are the same."""
    backend.put("a/b", b"123")
    assert list(backend.list("a/")) == [backend.head("a/b")]


@pytest.mark.parametrize("prefix", ["nothing", "a/b/", "a/b/c/d", "a/bb"])
def test_nothing_matches(backend: Backend, prefix: str) -> None:
    """An empty listing is no error, also below an object's name."""
    backend.put("a/b", b"")
    assert list(backend.list(prefix)) == []
    assert list(backend.list(prefix, delimiter="/")) == []


def test_a_folder_whose_objects_are_gone_is_not_listed(backend: Backend) -> None:
    """Stores know no empty folders."""
    backend.put("a/b/c", b"")
    backend.put("a/d", b"")
    backend.delete("a/b/c")
    assert _names(backend.list("a/", delimiter="/")) == ["a/d"]


def test_a_listing_may_be_left_early_and_outlives_deletes(backend: Backend) -> None:
    """Deleting what is yet to come is no error: it is there or it is not."""
    for number in range(20):
        backend.put(f"k/{number:02d}/x", b"")
    listing = backend.list("k/")
    assert _names(iter([next(listing)])) == ["k/00/x"]
    for number in range(20):
        backend.delete(f"k/{number:02d}/x")
    assert set(_names(listing)) <= {f"k/{number:02d}/x" for number in range(20)}
    assert list(backend.list("k/")) == []


_PARTS = st.sampled_from(["a", "a-", "a0", "b", "é", "A", "a b", "%", "\U0001f680", "z" * 300])
_KEYS = st.lists(_PARTS, min_size=1, max_size=3).map("/".join)


def _without_nested(keys: set[str]) -> set[str]:
    """Leave out what lies below the name of another: a directory cannot hold such a pair."""
    return {key for key in keys if not any(key.startswith(f"{other}/") for other in keys)}


@pytest.mark.parametrize("factory", sorted(FACTORIES))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    keys=st.sets(_KEYS, max_size=8).map(_without_nested),
    queries=st.lists(
        st.tuples(
            st.one_of(
                st.just(""), _KEYS, _KEYS.map(lambda k: f"{k}/"), _KEYS.map(lambda k: k[:-1])
            ),
            st.sampled_from([None, "/", "-", "a/"]),
            st.one_of(st.none(), _KEYS, _KEYS.map(lambda k: f"{k}/")),
        ),
        min_size=8,
        max_size=8,
    ),
)
def test_any_listing_is_as_the_simple_model_says(
    factory: str, keys: set[str], queries: list[tuple[str, str | None, str | None]]
) -> None:
    """Any keys, prefix, delimiter and start agree with filtering a sorted list."""
    with tempfile.TemporaryDirectory() as place:
        backend = FACTORIES[factory](Path(place))
        for key in keys:
            backend.put(key, b"")
        for prefix, delimiter, start_after in queries:
            found = _names(backend.list(prefix, delimiter=delimiter, start_after=start_after))
            assert found == _expected(keys, prefix, delimiter, start_after)
