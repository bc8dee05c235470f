"""Task definitions, of which thousands in a row differ in nothing but the task's id.

So a definition is looked up by its JSON text without the id, and only a text that was not seen
before is decoded. The text stays exact: the id is cut out where a full decode found it, and what
is put in its place is base64 of an id's length, which cannot hold a quote.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from historyserver.folding.decoding import plain
from historyserver.folding.ids import TASK_ID_BYTES, is_nil, parse_id
from historyserver.folding.shapes import Shape, shape_of
from historyserver.folding.skips import SkipReason, UnusableEventError
from historyserver.folding.wire import ActorTaskDefinition, TaskDefinition

_MARK = b'"taskId":"'
_ID_TEXT = 32
"""Length of a task id in base64."""

_TEXTS_KEPT = 4096
_PARENTS_KEPT = 100_000

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Defined:
    """What a definition tells of its task, apart from the id."""

    shape: int
    attempt: int
    parent: bytes


class Definitions:
    """Reads definitions and numbers their shapes. One per process."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []
        self._numbers: dict[Shape, int] = {}
        self._shape_cache: dict[tuple[object, ...], int] = {}
        self._parents: dict[str, bytes] = {}
        self._tasks = _Kind(TaskDefinition)
        self._calls = _Kind(ActorTaskDefinition)

    def task(self, payload: msgspec.Raw) -> tuple[str, Defined]:
        """Read a task's definition: the id as it is written, and the rest."""
        return self._read(bytes(payload), self._tasks)

    def call(self, payload: msgspec.Raw) -> tuple[str, Defined]:
        """Read the definition of an actor's method call."""
        return self._read(bytes(payload), self._calls)

    def _read(self, payload: bytes, kind: _Kind) -> tuple[str, Defined]:
        start = payload.find(_MARK) + len(_MARK)
        stop = start + _ID_TEXT
        rest = payload[:start] + payload[stop:]
        defined = kind.known.get(rest)
        if defined is not None:
            return payload[start:stop].decode("latin-1"), defined
        definition = kind.decode(payload)
        defined = Defined(
            self._shape(definition), definition.task_attempt, self._parent(definition)
        )
        text = definition.task_id
        if payload.count(_MARK) == 1 and payload[start:stop] == text.encode():
            if len(kind.known) >= _TEXTS_KEPT:
                kind.known.clear()
            kind.known[rest] = defined
        return text, defined

    def _parent(self, definition: TaskDefinition | ActorTaskDefinition) -> bytes:
        text = definition.parent_task_id
        if not text:
            return b""
        known = self._parents.get(text)
        if known is None:
            known = parse_id(text, TASK_ID_BYTES)
            known = b"" if is_nil(known) else known
            if len(self._parents) >= _PARENTS_KEPT:
                self._parents.clear()
            self._parents[text] = known
        return known

    def _shape(self, definition: TaskDefinition | ActorTaskDefinition) -> int:
        names = (
            ("", definition.actor_task_name, bytes(definition.actor_func))
            if isinstance(definition, ActorTaskDefinition)
            else (definition.task_type, definition.task_name, bytes(definition.task_func))
        )
        key = (
            names,
            definition.language,
            definition.placement_group_id,
            bytes(definition.required_resources),
            definition.serialized_runtime_env,
            bytes(definition.label_selector),
            definition.call_site,
            bytes(definition.fallback_strategy),
        )
        number = self._shape_cache.get(key)
        if number is None:
            try:
                shape = shape_of(definition)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise UnusableEventError(SkipReason.WRONG_TYPE) from error
            number = self._numbers.get(shape)
            if number is None:
                number = self._numbers[shape] = len(self.shapes)
                self.shapes.append(shape)
            self._shape_cache[key] = number
        return number


class _Kind:
    """One of the two kinds of definition, and the texts of it that were seen."""

    def __init__(self, kind: type[TaskDefinition | ActorTaskDefinition]) -> None:
        self.known: dict[bytes, Defined] = {}
        self._decoder = msgspec.json.Decoder(kind, strict=False)

    def decode(self, payload: bytes) -> TaskDefinition | ActorTaskDefinition:
        """Decode a definition, nulls read as absent. Raises `UnusableEventError`."""
        if payload in (b"", b"null"):
            raise UnusableEventError(SkipReason.NO_PAYLOAD)
        try:
            return self._decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        try:
            value = msgspec.json.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise UnusableEventError(SkipReason.NOT_JSON) from error
        try:
            return self._decoder.decode(_encode(plain(value)))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UnusableEventError(SkipReason.WRONG_TYPE) from error
