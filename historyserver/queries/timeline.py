"""The timeline of a session as a Chrome trace, streamed.

The events are Ray's (`chrome_tracing_dump`, 2.55), of every attempt and not of the first 10,000.
Nodes and workers are numbered in the order in which they appear, and attempts come in start
order, so the same session always gives the same bytes. Memory holds one batch of attempts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from historyserver.compiled.details import Details
from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import Profile, ProfileEvent
from historyserver.queries.options import EQUAL, Filter
from historyserver.queries.task_filters import clause, conditions

_BATCH = 200
_DEFAULT_COLOUR = "generic_work"
_COLOURS = {
    "worker_idle": "cq_build_abandoned",
    "task": "rail_response",
    "task:deserialize_arguments": "rail_load",
    "task:execute": "rail_animation",
    "task:store_outputs": "rail_idle",
    "wait_for_function": "detailed_memory_dump",
    "ray.get": "good",
    "ray.put": "terrible",
    "ray.wait": "vsync_highlight_color",
    "submit_task": "background_memory_dump",
    "fetch_and_run_function": "detailed_memory_dump",
    "register_remote_function": "detailed_memory_dump",
}
"""Ray's colours: the names are those of Chrome's trace viewer."""
_SHOWN_COMPONENTS = frozenset({"worker", "driver"})

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Tracks:
    """Numbers for nodes and workers: the trace viewers want integers."""

    nodes: dict[str, int] = field(default_factory=dict)
    workers: dict[tuple[int, str], int] = field(default_factory=dict)

    def of(self, profile: Profile) -> tuple[int, int]:
        node = self.nodes.setdefault(profile.node_ip, len(self.nodes))
        worker = (node, f"{profile.component_type}:{profile.component_id}")
        return node, self.workers.setdefault(worker, len(self.workers))

    def names(self) -> Iterator[dict[str, Any]]:
        for ip, node in self.nodes.items():
            yield _name("process_name", f"Node {ip}", node, None)
        for (node, worker_name), worker in self.workers.items():
            yield _name("thread_name", worker_name, node, worker)


def timeline(session: CompiledSession, job_id: str | None) -> Iterator[bytes]:
    """The body of `/api/v0/tasks/timeline`, in pieces."""
    filters = (Filter("job_id", EQUAL, job_id),) if job_id else ()
    wanted = conditions(session, filters, exclude_driver=True)
    where, parameters = clause(session, wanted.all)
    cursor = session.connection().execute(
        f"SELECT task_id, job, attempt, func, actor, detail FROM tasks WHERE {where} ORDER BY row",  # noqa: S608
        parameters,
    )
    return _pieces(session, cursor)


def _pieces(session: CompiledSession, cursor: Any) -> Iterator[bytes]:
    tracks, details = _Tracks(), Details(session)
    mark = "["
    while batch := cursor.fetchmany(_BATCH):
        events = [
            event for row in batch for event in _attempt_events(session, row, details, tracks)
        ]
        if events:
            yield (mark + ",".join(events)).encode()
            mark = ","
    names = _encode(list(tracks.names()))
    yield names if mark == "[" else b"]" if names == b"[]" else b"," + names[1:]


def _attempt_events(
    session: CompiledSession, row: tuple[Any, ...], details: Details, tracks: _Tracks
) -> Iterator[str]:
    task_id, job, attempt, func, actor, number = row
    arguments = ""
    for profile in details.get(number).profiles:
        if profile.component_type not in _SHOWN_COMPONENTS or not profile.events:
            continue
        arguments = arguments or _json(
            {
                "task_id": task_id.hex(),
                "job_id": session.string(job) or None,
                "attempt_number": attempt,
                "func_or_class_name": session.string(func) or None,
                "actor_id": session.string(actor) or None,
            }
        )
        node, worker = tracks.of(profile)
        for event in profile.events:
            yield _complete(event, arguments, node, worker)


def _complete(event: ProfileEvent, arguments: str, node: int, worker: int) -> str:
    """One event as JSON, from a template: a session has millions."""
    name = colour = event.name
    if event.extra_json not in ("", "{}"):
        extra = _extra(event.extra_json)
        name, colour = str(extra.get("name", name)), str(extra.get("cname", colour))
        arguments = _json({**extra, **msgspec.json.decode(arguments)})
    start = event.start_ns / 1e6 * 1e3
    return (
        f'{{"cat":{_json(event.name)},"name":{_json(name)},"pid":{node},"tid":{worker},'
        f'"ts":{start!r},"dur":{event.end_ns / 1e6 * 1e3 - start!r},'
        f'"cname":"{_COLOURS.get(colour, _DEFAULT_COLOUR)}","args":{arguments},"ph":"X"}}'
    )


def _json(value: Any) -> str:
    return _encode(value).decode()


def _extra(text: str) -> dict[str, Any]:
    if text in ("", "{}"):
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {"extra_data": text}


def _name(kind: str, name: str, node: int, worker: int | None) -> dict[str, Any]:
    return {"name": kind, "args": {"name": name}, "pid": node, "tid": worker, "ph": "M"}
