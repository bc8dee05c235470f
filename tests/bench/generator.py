"""Generates large sessions of real-shaped events, in KubeRay's layout and in ours.

Shape: the one that KubeRay's server was measured with. Four nodes, one job, per task five
events (a definition, three lifecycles, a profile) and about 4.05 KB, one task in a hundred
fails, a few actors. A test checks the keys of every event type against real events.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storage.layout import SessionRef, event_key, log_key, marker_key

SESSION = "session_2026-11-30_08-00-00_000000_1"
NAMESPACE = "bench"
JOB = bytes.fromhex("02000000")
NODES = 4
ACTORS = 10
START_NS = 1_796_025_600 * 10**9
FAIL_EVERY = 100
ROTATE_BYTES = 64 * 1024 * 1024
"""Our collector begins a new event file after so many plain bytes."""

_NAMES = ("preprocess", "train_step", "evaluate", "tokenize", "aggregate")
_ENV = json.dumps(
    {
        "env_vars": {"OMP_NUM_THREADS": "1", "STAGE": "bench"},
        "working_dir": "gcs://_ray_pkg_70eea6edb67964e0.zip",
    }
)
_DRIVER = b"\xff" * 20 + JOB


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _digest(text: str, size: int) -> bytes:
    return hashlib.shake_128(text.encode()).digest(size)


NODE_IDS = tuple(_digest(f"node {n}", 28) for n in range(NODES))


def _time(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    return f"{_second(seconds)}.{rest:09d}Z"


_seconds: dict[int, str] = {}


def _second(seconds: int) -> str:
    text = _seconds.get(seconds)
    if text is None:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        _seconds[seconds] = text
    return text


def _event(kind: str, source: str, node: int, ns: int, payload: dict[str, Any], salt: str) -> bytes:
    field = {"TASK_PROFILE_EVENT": "taskProfileEvents"}.get(kind)
    if field is None:
        first, *rest = kind.split("_")
        field = first.lower() + "".join(word.capitalize() for word in rest)
    event = {
        field: payload,
        "eventId": _b64(_digest(f"{kind} {salt} {ns}", 28)),
        "eventType": kind,
        "message": "",
        "nodeId": _b64(NODE_IDS[node]),
        "sessionName": SESSION,
        "severity": "INFO",
        "sourceType": source,
        "timestamp": _time(ns),
    }
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def cluster_events() -> Iterator[tuple[int, bytes]]:
    """Yield (node, line) of the nodes, the job and the actors."""
    for node, raw in enumerate(NODE_IDS):
        resources = {
            f"node:10.0.0.{node}": 1,
            "CPU": 8,
            "memory": 3221225472,
            "object_store_memory": 947963904,
        }
        if node == 0:
            resources["node:__internal_head__"] = 1
        definition = {
            "hostname": f"bench-{node}", "instanceId": "", "instanceTypeName": "",
            "labels": {"ray.io/node-id": raw.hex()}, "nodeId": _b64(raw),
            "nodeIpAddress": f"10.0.0.{node}", "nodeName": f"10.0.0.{node}",
            "startTimestamp": _time(START_NS),
        }  # fmt: skip
        yield 0, _event("NODE_DEFINITION_EVENT", "GCS", 0, START_NS, definition, raw.hex())
        alive = {
            "aliveSubState": "UNSPECIFIED",
            "resources": resources,
            "state": "ALIVE",
            "timestamp": _time(START_NS),
        }
        lifecycle = {"nodeId": _b64(raw), "stateTransitions": [alive]}
        yield 0, _event("NODE_LIFECYCLE_EVENT", "GCS", 0, START_NS, lifecycle, raw.hex())
    job = {
        "config": {"metadata": {"job_name": "bench", "job_submission_id": "bench"}, "serializedRuntimeEnv": _ENV},
        "driverNodeId": _b64(NODE_IDS[0]), "driverPid": "728", "entrypoint": "python bench.py",
        "jobId": _b64(JOB),
    }  # fmt: skip
    yield 0, _event("DRIVER_JOB_DEFINITION_EVENT", "GCS", 0, START_NS + 1, job, "job")
    created = {
        "jobId": _b64(JOB),
        "stateTransitions": [{"state": "CREATED", "timestamp": _time(START_NS + 1)}],
    }
    yield 0, _event("DRIVER_JOB_LIFECYCLE_EVENT", "GCS", 0, START_NS + 1, created, "job")
    for number in range(ACTORS):
        yield from _actor(number)


def _actor(number: int) -> Iterator[tuple[int, bytes]]:
    node, ns = number % NODES, START_NS + 10**9 + number
    actor = _digest(f"actor {number}", 12) + JOB
    definition = {
        "actorId": _b64(actor), "callSite": "", "className": "Counter", "isDetached": False,
        "jobId": _b64(JOB), "labelSelector": {}, "name": f"counter-{number}",
        "parentId": _b64(_DRIVER), "placementGroupId": _b64(b"\xff" * 18), "rayNamespace": "bench",
        "refIds": {}, "requiredResources": {}, "serializedRuntimeEnv": _ENV,
    }  # fmt: skip
    yield 0, _event("ACTOR_DEFINITION_EVENT", "GCS", 0, ns, definition, actor.hex())
    steps = [
        {"nodeId": "", "pid": 0, "port": 0, "reprName": "", "restartReason": "ACTOR_FAILURE", "state": "PENDING_CREATION", "timestamp": _time(ns), "workerId": ""},
        {"nodeId": _b64(NODE_IDS[node]), "pid": 5000 + number, "port": 10000 + number, "reprName": "", "restartReason": "ACTOR_FAILURE", "state": "ALIVE", "timestamp": _time(ns + 10**7), "workerId": _b64(_digest(f"actor worker {number}", 28))},
    ]  # fmt: skip
    lifecycle = {"actorId": _b64(actor), "stateTransitions": steps}
    yield 0, _event("ACTOR_LIFECYCLE_EVENT", "GCS", 0, ns, lifecycle, actor.hex())
    method = {
        "actorFunc": {"pythonFunctionDescriptor": {"className": "Counter", "functionHash": "", "functionName": "add", "moduleName": "bench"}},
        "actorId": _b64(actor), "actorTaskName": "Counter.add", "jobId": _b64(JOB), "labelSelector": {},
        "language": "PYTHON", "parentTaskId": _b64(_DRIVER), "placementGroupId": _b64(b"\xff" * 18),
        "refIds": {}, "requiredResources": {"CPU": 1}, "serializedRuntimeEnv": _ENV, "taskAttempt": 0,
        "taskId": _b64(_digest(f"call {number}", 8) + actor),
    }  # fmt: skip
    yield 0, _event("ACTOR_TASK_DEFINITION_EVENT", "CORE_WORKER", 0, ns, method, actor.hex())


def task_events(number: int) -> Iterator[tuple[int, bytes]]:
    """Yield (node, line) of one task: the owner's events on the head, the executor's on its node."""
    node, name = number % NODES, _NAMES[number % len(_NAMES)]
    ns = START_NS + 2 * 10**9 + number * 250_000
    task = _digest(f"task {number}", 8) + b"\xff" * 12 + JOB
    task_b64, job = _b64(task), _b64(JOB)
    worker_number = number // NODES % 8
    worker = _digest(f"worker {node} {worker_number}", 28)
    pid = 1000 + node * 8 + worker_number
    definition = {
        "jobId": job, "labelSelector": {}, "language": "PYTHON", "parentTaskId": _b64(_DRIVER),
        "placementGroupId": _b64(b"\xff" * 18), "refIds": {}, "requiredResources": {"CPU": 1},
        "serializedRuntimeEnv": _ENV, "taskAttempt": 0,
        "taskFunc": {"pythonFunctionDescriptor": {"className": "", "functionHash": hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), "functionName": name, "moduleName": "bench"}},
        "taskId": task_b64, "taskName": name, "taskType": "NORMAL_TASK",
    }  # fmt: skip
    yield 0, _event("TASK_DEFINITION_EVENT", "CORE_WORKER", 0, ns, definition, task_b64)
    base = {
        "jobId": job,
        "nodeId": "",
        "taskAttempt": 0,
        "taskId": task_b64,
        "workerId": "",
        "workerPid": 0,
    }
    pending = [
        {"state": "PENDING_ARGS_AVAIL", "timestamp": _time(ns)},
        {"state": "PENDING_NODE_ASSIGNMENT", "timestamp": _time(ns + 40_000)},
    ]
    yield (
        0,
        _event(
            "TASK_LIFECYCLE_EVENT",
            "CORE_WORKER",
            0,
            ns,
            {**base, "stateTransitions": pending},
            task_b64,
        ),
    )
    start, end = ns + 10**7, ns + 3 * 10**7
    run_number = number // (NODES * 8)
    running = {
        **base, "stateTransitions": [{"state": "RUNNING", "timestamp": _time(start)}],
        "taskLogInfo": {
            "stderrEnd": str(17 + 30 * (run_number + 1)), "stderrFile": "", "stderrStart": "0",
            "stdoutEnd": str(17 + 60 * (run_number + 1)), "stdoutFile": "", "stdoutStart": "0",
        },
        "workerPid": pid,
    }  # fmt: skip
    yield node, _event("TASK_LIFECYCLE_EVENT", "CORE_WORKER", node, start, running, task_b64)
    yield 0, _end(number, base, node, worker, pid, start, end, name)
    yield node, _profile(task, node, worker, start, end, name)


def _end(
    number: int,
    base: dict[str, Any],
    node: int,
    worker: bytes,
    pid: int,
    start: int,
    end: int,
    name: str,
) -> bytes:
    failed = number % FAIL_EVERY == FAIL_EVERY - 1
    payload = {
        **base, "nodeId": _b64(NODE_IDS[node]),
        "stateTransitions": [
            {"state": "SUBMITTED_TO_WORKER", "timestamp": _time(start - 500_000)},
            {"state": "FAILED" if failed else "FINISHED", "timestamp": _time(end)},
        ],
        "workerId": _b64(worker),
    }  # fmt: skip
    if failed:
        payload["rayErrorInfo"] = {
            "errorMessage": f"User exception:\n\x1b[36mray::{name}()\x1b[39m (pid={pid}, ip=10.0.0.{node})\n  File \"bench.py\", line 7, in {name}\nValueError: no {number}",
            "errorType": "TASK_EXECUTION_EXCEPTION",
        }  # fmt: skip
    return _event("TASK_LIFECYCLE_EVENT", "CORE_WORKER", 0, end, payload, base["taskId"])


def _profile(task: bytes, node: int, worker: bytes, start: int, end: int, name: str) -> bytes:
    spans = [
        ("task:deserialize_arguments", start + 10**4, start + 10**5, {}),
        ("task:execute", start + 10**5, end - 10**6, {}),
        ("task:store_outputs", end - 10**6, end - 10**4, {}),
        (f"task::{name}", start, end, {"name": f"bench.{name}", "task_id": task.hex()}),
    ]
    payload = {
        "attemptNumber": 0, "jobId": _b64(JOB),
        "profileEvents": {
            "componentId": _b64(worker), "componentType": "worker",
            "events": [
                {"endTime": str(e), "eventName": n, "extraData": json.dumps(x), "startTime": str(s)}
                for n, s, e, x in spans
            ],
            "nodeIpAddress": f"10.0.0.{node}",
        },
        "taskId": _b64(task),
    }  # fmt: skip
    return _event("TASK_PROFILE_EVENT", "CORE_WORKER", node, end, payload, task.hex())


def all_events(tasks: int) -> Iterator[tuple[int, bytes]]:
    """Yield (node, line) of a whole session."""
    yield from cluster_events()
    for number in range(tasks):
        yield from task_events(number)


def write_session(bucket: Path, tasks: int, *, layout: str) -> SessionRef:
    """Write a session below `bucket`, unless it is there from an earlier run.

    Args:
        bucket: the folder that a local backend is opened on.
        tasks: how many.
        layout: `kuberay` (plain lines, a file per node) or `ours` (gzip, rotated).
    """
    ref = SessionRef(NAMESPACE, f"{layout}-{tasks}", SESSION)
    done = bucket / marker_key(ref)
    if done.exists():
        return ref
    writers = [_NodeFiles(bucket, ref, node.hex(), gzipped=layout == "ours") for node in NODE_IDS]
    for node, line in all_events(tasks):
        writers[node].write(line)
    for writer in writers:
        writer.close()
    log = bucket / log_key(ref, NODE_IDS[0].hex(), "gcs_server.out")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("ended\n")
    done.parent.mkdir(parents=True, exist_ok=True)
    done.write_bytes(b"")
    return ref


class _NodeFiles:
    """The event files of one node, rotated by size when they are gzip."""

    def __init__(self, bucket: Path, ref: SessionRef, node_id: str, *, gzipped: bool) -> None:
        self._bucket, self._ref, self._node_id, self._gzipped = bucket, ref, node_id, gzipped
        self._lines: list[bytes] = []
        self._size_bytes = 0
        self._files = 0

    def write(self, line: bytes) -> None:
        self._lines.append(line)
        self._size_bytes += len(line)
        if self._gzipped and self._size_bytes >= ROTATE_BYTES:
            self.close()

    def close(self) -> None:
        key = event_key(
            self._ref,
            self._node_id,
            ("job_events", JOB.hex()),
            START_NS + self._files,
            self._gzipped,
        )
        path = self._bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        body = b"".join(self._lines)
        path.write_bytes(gzip.compress(body, compresslevel=6) if self._gzipped else body)
        self._lines, self._size_bytes = [], 0
        self._files += 1
