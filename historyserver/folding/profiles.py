"""Unites the profile events that processes report of one attempt."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import msgspec

from historyserver.folding.records import Profile, ProfileEvent

_decode = msgspec.msgpack.Decoder(Profile).decode
_encode = msgspec.msgpack.Encoder().encode

SPAN_ORDER = itemgetter(2, 1, 0, 3)
"""Of the fields of a span: by end, start, name and extra data."""

RUN_SPAN = "task:"
"""Prefix of the spans of a task that runs, as `task:execute`; other spans are of calls."""

TASK_SPAN = "task::"
"""Prefix of the span over a whole task; the task's name follows."""


def merge_profiles(packed: Sequence[bytes]) -> list[msgspec.Raw]:
    """Give one profile per process, each with every span once, in order of their ends.

    A span is the same when name, start and end are; one profile, the usual case, stays packed.
    """
    if len(packed) < 2:
        return [msgspec.Raw(one) for one in packed]
    processes: dict[tuple[str, str, str], dict[tuple[int, int, str], ProfileEvent]] = {}
    for one in packed:
        profile = _decode(one)
        key = (profile.component_type, profile.component_id, profile.node_ip)
        spans = processes.setdefault(key, {})
        for event in profile.events:
            span = (event.end_ns, event.start_ns, event.name)
            known = spans.get(span)
            if known is None or event.extra_json > known.extra_json:
                spans[span] = event
    return [
        msgspec.Raw(_encode(Profile(*key, events=tuple(spans[span] for span in sorted(spans)))))
        for key, spans in sorted(processes.items())
    ]


def traced_name(packed: Sequence[bytes]) -> str:
    """Find a task's name in its spans, for attempts whose definition never came."""
    for one in sorted(packed):
        for event in _decode(one).events:
            if event.name.startswith(TASK_SPAN):
                return event.name.removeprefix(TASK_SPAN)
    return ""


def has_run(packed: Sequence[bytes]) -> bool:
    """Whether a span says that the task ran in the process that reports it."""
    return any(event.name.startswith(RUN_SPAN) for one in packed for event in _decode(one).events)
