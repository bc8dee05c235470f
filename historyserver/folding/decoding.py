"""From blocks of JSON lines to typed events; a bad line costs only itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from historyserver.folding.skips import SkipReason
from historyserver.folding.wire import Event

_MAPS = frozenset(
    {
        "labels", "resources", "required_resources", "metadata", "label_selector", "ref_ids",
        "custom_fields",
    }
)  # fmt: skip
"""Fields whose keys are data, not names: they keep their case."""

_SNAKE = re.compile(r"_([a-z0-9])")


class Decoder:
    """Decodes blocks of lines and counts what could not be."""

    def __init__(self, skipped: Counter[str]) -> None:
        self._skipped = skipped
        self._decoder = msgspec.json.Decoder(Event, strict=False)

    def decode(self, block: bytes) -> list[Event]:
        """Decode complete lines. The usual block is one call; one with a bad line goes by line."""
        try:
            events = self._decoder.decode_lines(block)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return [event for line in block.split(b"\n") for event in self._one(line)]
        if "" in [event.event_type for event in events]:
            return [event for line in block.split(b"\n") for event in self._one(line)]
        return events

    def _one(self, line: bytes) -> Iterator[Event]:
        if not line.strip():
            return
        try:
            event = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            event = Event()
        if event.event_type:
            yield event
            return
        try:
            value = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._skipped[SkipReason.NOT_JSON] += 1
            return
        if not isinstance(value, dict) or not (value.get("eventType") or value.get("event_type")):
            self._skipped[SkipReason.NOT_AN_EVENT] += 1
            return
        try:
            # Through JSON again: raw fields exist only there.
            yield self._decoder.decode(msgspec.json.encode(plain(value)))
        except (msgspec.MsgspecError, RecursionError):
            self._skipped[SkipReason.WRONG_TYPE] += 1


def plain(value: object) -> object:
    """Bring an event to the usual form: names in camelCase, nothing null.

    Ray writes snake_case when `..._PRESERVE_PROTO_FIELD_NAME=1` is set.
    """
    if isinstance(value, dict):
        return {
            _SNAKE.sub(lambda match: match.group(1).upper(), key): (
                item if key in _MAPS and isinstance(item, dict) else plain(item)
            )
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [plain(item) for item in value if item is not None]
    return value
