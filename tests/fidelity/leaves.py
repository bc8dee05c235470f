"""From an answer to its leaf fields: rows matched by identity, not by position.

A leaf is a scalar, an empty list or an empty map. Each has a `place` (with the identity of each
row on the way, to match both sides) and a `field` (the same with `*` for identities, for rules
and tables), and knows the outermost row that it belongs to.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# The first tuple whose keys all rows of a list have identifies them; dots reach into maps.
IDENTITIES: tuple[tuple[str, ...], ...] = (
    ("ph", "process", "thread", "cat", "name", "ts"),
    ("task_id", "attempt_number"),
    ("eventId",),
    ("actor_id",),
    ("workerId",),
    ("worker_id",),
    ("object_id", "reference_type", "pid"),
    ("bundle_id.bundle_index",),
    ("placement_group_id",),
    ("runtime_env", "node_id"),
    ("submission_id", "job_id"),
    ("raylet.nodeId",),
    ("node_id",),
    ("event_name", "start_time"),
    ("state", "created_ms"),
    ("key",),
    ("pid",),
)
ID = re.compile(r"[0-9a-f]{8}|[0-9a-f]{28,64}")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One field of an answer."""

    field: str
    value: Any
    row: Any = None  # the outermost list item or map by id around it


def leaves(body: Any) -> dict[str, Leaf]:
    """The leaf fields of an answer by their place."""
    return dict(_walk(body, "", "", None))


def _walk(value: Any, place: str, field: str, row: Any) -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            is_id = ID.fullmatch(key) is not None
            inner = below if is_id and row is None else row
            yield from _walk(below, f"{place}.{key}", _joined(field, "*" if is_id else key), inner)
    elif isinstance(value, list) and value:
        for name, below in _named_rows(_unpadded(value)):
            inner = below if row is None else row
            yield from _walk(below, f"{place}[{name}]", _joined(field, "*"), inner)
    else:
        yield place, Leaf(field, value, row)


def _unpadded(rows: list[Any]) -> list[Any]:
    """Without the empty strings at the end of a command line.

    A Ray process writes its title over its arguments, which leaves hundreds of them: padding of
    the process table, not fields.
    """
    end = len(rows)
    while end > 1 and rows[end - 1] == "":
        end -= 1
    return rows[:end]


def _joined(field: str, key: str) -> str:
    return f"{field}.{key}" if field else key


def _named_rows(rows: list[Any]) -> Iterator[tuple[str, Any]]:
    """Each row with a name that does not depend on its position where that is possible."""
    seen: Counter[str] = Counter()
    identity = _identity_of(rows)
    plain = all(isinstance(row, str) for row in rows)
    for index, row in enumerate(rows):
        if plain:  # lists of names (log files): a set
            name = str(row)
        elif identity:
            name = json.dumps([_reach(row, key)[1] for key in identity], sort_keys=True)
        else:
            name = str(index)
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), row


def _identity_of(rows: list[Any]) -> tuple[str, ...] | None:
    if not all(isinstance(row, dict) for row in rows):
        return None
    for identity in IDENTITIES:
        if all(_reach(row, key)[0] for row in rows for key in identity):
            # A transition's time is a field to compare, not a part of its identity.
            return ("state",) if identity == ("state", "created_ms") else identity
    return None


def _reach(row: Any, path: str) -> tuple[bool, Any]:
    for key in path.split("."):
        if not isinstance(row, dict) or key not in row:
            return False, None
        row = row[key]
    return True, row


def normal_timeline(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A Chrome trace with names instead of process and thread numbers.

    The numbers are labels in the order in which the server met the workers; what they label is
    told by the metadata events.
    """
    processes: dict[Any, str] = {}
    threads: dict[Any, str] = {}
    for event in events:
        if event.get("ph") == "M" and event.get("name") == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            threads[event["pid"], event["tid"]] = event["args"]["name"]
    normal = []
    for event in events:
        kept = {key: value for key, value in event.items() if key not in ("pid", "tid")}
        kept["process"] = processes.get(event.get("pid"))
        kept["thread"] = threads.get((event.get("pid"), event.get("tid")))
        kept.setdefault("cat", None)
        kept.setdefault("ts", None)
        normal.append(kept)
    return normal
