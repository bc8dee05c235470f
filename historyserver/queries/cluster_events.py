"""Ray's own cluster events (`/events`), from the rows of `cluster_events`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from historyserver.compiled.opener import CompiledSession

GLOBAL = "global"
"""The group of events that belong to no job."""
MAX_PER_JOB = 10_000
"""As many as Ray's dashboard keeps per job; the latest are kept."""

_UNDERSCORED = re.compile(r"_+([A-Za-z0-9])")


def by_job(session: CompiledSession) -> dict[str, list[dict[str, Any]]]:
    """All events in Ray's JSON shape, by job id, each list in time order."""
    jobs: dict[str, list[dict[str, Any]]] = {}
    for job_id, event in _rows(session, "", ()):
        jobs.setdefault(job_id, []).append(camel(event))
    return {job_id: events[-MAX_PER_JOB:] for job_id, events in jobs.items()}


def of_job(session: CompiledSession, job_id: str) -> list[dict[str, Any]]:
    """One job's events (or those of `global`)."""
    if job_id == GLOBAL:
        rows = _rows(session, "WHERE job_id IS NULL OR job_id IN ('', 'global')", ())
    else:
        rows = _rows(session, "WHERE job_id = ?", (job_id,))
    return [camel(event) for _, event in rows][-MAX_PER_JOB:]


def as_state_rows(session: CompiledSession) -> list[dict[str, Any]]:
    """The rows of `ray list cluster-events`."""
    return [
        {
            "severity": event.get("severity", ""),
            "time": _utc_text(event.get("timestamp", event.get("time_stamp", 0))),
            "source_type": event.get("source_type", ""),
            "message": event.get("message", ""),
            "event_id": event.get("event_id", ""),
            "custom_fields": event.get("custom_fields"),
        }
        for _, event in _rows(session, "", ())
    ]


def camel(value: Any) -> Any:
    """Keys in camelCase at every depth, as Ray's dashboard answers them."""
    if isinstance(value, dict):
        return {_camel_key(key): camel(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [camel(inner) for inner in value]
    return value


def _camel_key(key: str) -> str:
    head = key.lstrip("_")
    return key[: len(key) - len(head)] + _UNDERSCORED.sub(lambda m: m.group(1).upper(), head)


def _rows(
    session: CompiledSession, where: str, values: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, Any]]]:
    query = f"SELECT job_id, body FROM cluster_events {where} ORDER BY row"  # noqa: S608
    for job_id, body in session.connection().execute(query, values):
        event = json.loads(body)
        if not isinstance(event, dict):
            continue
        message = event.get("message")
        if isinstance(message, str):
            event["message"] = message.replace("\\n", "\n").replace("\\r", "\n")
        yield job_id or GLOBAL, event


def _utc_text(timestamp: Any) -> str:
    try:
        moment = datetime.fromtimestamp(int(timestamp), UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
    return moment.strftime("%Y-%m-%d %H:%M:%S")
