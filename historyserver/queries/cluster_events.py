"""Ray's own cluster events (`/events`), from the rows of `cluster_events`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from historyserver.compiled.opener import CompiledSession
from historyserver.queries.columns import CLUSTER_EVENTS
from historyserver.queries.matching import answer_list
from historyserver.queries.options import ListOptions

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


def list_cluster_events(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/cluster_events`, the earliest first. Raises `QueryError`."""
    rows = (
        {
            "severity": event.get("severity", ""),
            "time": _utc_text(event.get("timestamp", event.get("time_stamp", 0))),
            "source_type": event.get("source_type", ""),
            "message": event.get("message", ""),
            "event_id": event.get("event_id", ""),
            "custom_fields": event.get("custom_fields"),
        }
        for _, event in _rows(session, "", ())
    )
    return answer_list(rows, options, CLUSTER_EVENTS, sort_key=itemgetter("time"))


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
