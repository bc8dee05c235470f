"""A backend with planned faults around another one, for tests of whatever uses storage.

Deterministic: a fault counts the calls that match it, so the same calls meet the same faults.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from storage.backend import (
    CHUNK_BYTES,
    Backend,
    Body,
    CommonPrefix,
    ObjectInfo,
    StorageError,
    UnavailableError,
)

Result = TypeVar("Result")


class Verb(StrEnum):
    """The calls that can fail; the values are the methods' names."""

    PUT = "put"
    GET = "get"
    GET_RANGE = "get_range"
    LIST = "list"
    HEAD = "head"
    DELETE = "delete"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong with which calls.

    Of the calls of `verb` whose key (or prefix) contains `key_part`, the ones from number
    `nth` on are hit, `times` of them. What happens to them, in this order: `delay_s`; then
    `error` at once, or with `after` set, `error` once that much got through: bytes of a body
    that is put (nothing becomes visible) or read, or items of a list. `lost_answer`: the call
    does its work, and raises `error` then. `cut_at`: what is read ends early, without error.
    `corrupt_at`: this byte of what is read is inverted.
    """

    verb: Verb
    nth: int = 1
    times: int | None = 1
    """None: all further calls."""
    key_part: str = ""
    delay_s: float = 0.0
    error: type[StorageError] | None = None
    after: int | None = None
    lost_answer: bool = False
    cut_at: int | None = None
    corrupt_at: int | None = None

    def raised(self, key: str) -> StorageError:
        """The error, with the key in its text as backends do."""
        return (self.error or UnavailableError)(f"{key}: planned fault of {self.verb}")


class FaultyBackend:
    """Passes calls on to `inner`, but for those that the plan hits (the first fault that does)."""

    def __init__(self, inner: Backend, plan: Sequence[Fault] = ()) -> None:
        """Wrap `inner`; the plan can be replaced by assigning `plan`, which restarts counting."""
        self._inner = inner
        self._lock = threading.Lock()
        self.calls: list[tuple[Verb, str]] = []
        """Every call so far with its key or prefix, in order."""
        self.plan = plan

    @property
    def plan(self) -> Sequence[Fault]:
        """The faults to come."""
        return self._plan

    @plan.setter
    def plan(self, plan: Sequence[Fault]) -> None:
        with self._lock:
            self._plan = tuple(plan)
            self._counts = [0] * len(self._plan)

    def put(self, key: str, body: Body, *, create_only: bool = False) -> ObjectInfo:
        """Store, or fail before, within or after."""
        fault = self._hit(Verb.PUT, key)
        if fault is not None and fault.error and fault.after is not None:
            body = _failing_body(body, fault, key)
        return _called(fault, key, lambda: self._inner.put(key, body, create_only=create_only))

    def get(self, key: str) -> Iterator[bytes]:
        """Read, or fail before or within, or give less or other bytes."""
        fault = self._hit(Verb.GET, key)
        return _read(_called(fault, key, lambda: self._inner.get(key)), fault, key)

    def get_range(self, key: str, start: int, length: int | None = None) -> Iterator[bytes]:
        """Read a part; offsets of faults count from the part's first byte."""
        fault = self._hit(Verb.GET_RANGE, key)
        return _read(
            _called(fault, key, lambda: self._inner.get_range(key, start, length)), fault, key
        )

    def list(
        self, prefix: str, *, delimiter: str | None = None, start_after: str | None = None
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """List, or fail before or within."""
        fault = self._hit(Verb.LIST, prefix)
        items = _called(
            fault,
            prefix,
            lambda: self._inner.list(prefix, delimiter=delimiter, start_after=start_after),
        )
        return _listed(items, fault, prefix)

    def head(self, key: str) -> ObjectInfo:
        """Tell, or fail."""
        return _called(self._hit(Verb.HEAD, key), key, lambda: self._inner.head(key))

    def delete(self, key: str) -> None:
        """Remove, or fail before or after."""
        _called(self._hit(Verb.DELETE, key), key, lambda: self._inner.delete(key))

    def _hit(self, verb: Verb, key: str) -> Fault | None:
        """Count this call; the fault that it meets, if any."""
        hit: Fault | None = None
        with self._lock:
            self.calls.append((verb, key))
            for index, fault in enumerate(self._plan):
                if fault.verb is not verb or fault.key_part not in key:
                    continue
                self._counts[index] += 1
                number = self._counts[index] - fault.nth
                if hit is None and number >= 0 and (fault.times is None or number < fault.times):
                    hit = fault
        return hit


def _called(fault: Fault | None, key: str, call: Callable[[], Result]) -> Result:
    if fault is None:
        return call()
    if fault.delay_s:
        time.sleep(fault.delay_s)
    if fault.error and fault.after is None and not fault.lost_answer:
        raise fault.raised(key)
    result = call()
    if fault.lost_answer:
        raise fault.raised(key)
    return result


def _listed(
    items: Iterator[ObjectInfo | CommonPrefix], fault: Fault | None, prefix: str
) -> Iterator[ObjectInfo | CommonPrefix]:
    if fault is None or not fault.error or fault.after is None:
        return items
    return _failing_items(items, fault, prefix)


def _failing_items(
    items: Iterator[ObjectInfo | CommonPrefix], fault: Fault, prefix: str
) -> Iterator[ObjectInfo | CommonPrefix]:
    yield from itertools.islice(items, fault.after)
    raise fault.raised(prefix)


def _failing_body(body: Body, fault: Fault, key: str) -> Iterator[bytes]:
    passed = 0
    for chunk in _chunks(body):
        allowed = (fault.after or 0) - passed
        if len(chunk) >= allowed:
            yield chunk[:allowed]
            raise fault.raised(key)
        passed += len(chunk)
        yield chunk
    raise fault.raised(key)


def _chunks(body: Body) -> Iterator[bytes]:
    if isinstance(body, bytes):
        yield body
    elif isinstance(body, Path):
        with body.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    else:
        yield from body


def _read(chunks: Iterator[bytes], fault: Fault | None, key: str) -> Iterator[bytes]:
    if fault is None:
        yield from chunks
        return
    passed = 0
    for chunk in chunks:
        begin, passed = passed, passed + len(chunk)
        if fault.error and fault.after is not None and passed >= fault.after:
            yield chunk[: fault.after - begin]
            raise fault.raised(key)
        if fault.cut_at is not None and passed >= fault.cut_at:
            yield chunk[: fault.cut_at - begin]
            return
        yield _corrupted(chunk, begin, fault.corrupt_at)
    if fault.error and fault.after is not None:
        raise fault.raised(key)


def _corrupted(chunk: bytes, begin: int, corrupt_at: int | None) -> bytes:
    if corrupt_at is None or not begin <= corrupt_at < begin + len(chunk):
        return chunk
    changed = bytearray(chunk)
    changed[corrupt_at - begin] ^= 0xFF
    return bytes(changed)
