"""Events shaped as Ray sends them, for the tests of the collector's intake side."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

SESSION = "session_2026-11-30_19-57-10_681566_45"
OLD_SESSION = "session_2026-11-30_18-00-00_000001_12"
NODE = "fcacfc42e789e52d7df59491f3264f8a53e36fcc77cd6f3ca3377f28"
OTHER_NODE = "956a83cfda6729f0a63aba8345235b6be5f6c1eab1d9e429112933a4"

SAMPLES = Path(__file__).parents[1] / "samples"


def base64_of(hex_id: str) -> str:
    """A hex id as events carry it."""
    return base64.b64encode(bytes.fromhex(hex_id)).decode()


def task_event(number: int, *, session: str = SESSION, job: str = "02000000") -> dict[str, Any]:
    """One TASK_LIFECYCLE_EVENT with an id made of `number`; about as large as real ones."""
    task_id = base64.b64encode(number.to_bytes(24, "big")).decode()
    return {
        "eventId": base64.b64encode(number.to_bytes(28, "big")).decode(),
        "sourceType": "CORE_WORKER",
        "eventType": "TASK_LIFECYCLE_EVENT",
        "timestamp": "2026-11-30T19:57:37.175071937Z",
        "severity": "INFO",
        "sessionName": session,
        "taskLifecycleEvent": {
            "taskId": task_id,
            "taskAttempt": 0,
            "stateTransitions": [{"state": "FINISHED", "timestamp": "2026-11-30T19:57:37.1Z"}],
            "nodeId": base64_of(NODE),
            "workerId": base64_of(NODE),
            "workerPid": number,
            "jobId": base64_of(job),
            "taskLogInfo": {"stdoutFile": "/tmp/ray/session/logs/worker.out", "stdoutEnd": "17"},
        },
        "nodeId": base64_of(NODE),
        "message": "",
    }


def body(*events: Any) -> bytes:
    """A POST body as Ray makes it."""
    return json.dumps(list(events)).encode()


def task_body(start: int, count: int, *, session: str = SESSION) -> bytes:
    """A POST body with `count` task events from number `start`, as `task_event` makes them."""
    before, between, pid, after = _template(session)
    events = []
    for number in range(start, start + count):
        event_id = base64.b64encode(number.to_bytes(28, "big")).decode()
        task_id = base64.b64encode(number.to_bytes(24, "big")).decode()
        events.append(f"{before}{event_id}{between}{task_id}{pid}{number}{after}")
    return f"[{', '.join(events)}]".encode()


@lru_cache
def _template(session: str) -> list[str]:
    """The text of an event around what differs: the load tests send very many."""
    event = task_event(0, session=session)
    event["eventId"] = event["taskLifecycleEvent"]["taskId"] = "@"
    event["taskLifecycleEvent"]["workerPid"] = "@"
    return json.dumps(event).replace('"@", "jobId"', '@, "jobId"').split("@")


def real_events() -> list[dict[str, Any]]:
    """One or more real events of every type that Ray 2.55 and 2.60 sent."""
    events: list[dict[str, Any]] = []
    for path in sorted((SAMPLES / "ray-events").glob("*_EVENT*.json")):
        events += json.loads(path.read_text())
    return events


def to_snake(value: Any) -> Any:
    """The same event with snake_case keys, as `PRESERVE_PROTO_FIELD_NAME` makes Ray send it."""
    if isinstance(value, dict):
        return {_snake(key): to_snake(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_snake(item) for item in value]
    return value


def _snake(key: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)
