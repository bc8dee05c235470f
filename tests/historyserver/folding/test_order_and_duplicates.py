"""Folding gives the same records whatever the order, number and files of the events."""

from __future__ import annotations

import functools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyserver.reading.damage import DamageLog
from historyserver.reading.events import open_events
from tests.harness.compiled_samples import kuberay_source, ray_sample_events
from tests.historyserver.folding.folded import Json, fold, fold_bodies, lines

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@functools.cache
def session_events() -> tuple[Json, ...]:
    """Every event of a real two-node session, and of each type that Ray sends."""
    backend, source = kuberay_source("v170")
    found: list[Json] = []
    for file in source.event_files:
        for block in open_events(backend, file, DamageLog()):
            found += [json.loads(line) for line in block.splitlines()]
    return (*found, *ray_sample_events())


@functools.cache
def expected() -> object:
    """The records in the order in which they were stored."""
    return fold(list(session_events())).comparable()


def test_the_session_is_not_trivial() -> None:
    """What the properties are checked on has tasks, actors, jobs, nodes and workers."""
    rows, actors, jobs, nodes, workers = fold(list(session_events())).comparable()
    assert len(rows) > 20
    assert all((actors, jobs, nodes, workers))


@quick
@given(order=st.permutations(range(len(session_events()))))
def test_any_order_gives_the_same_records(order: list[int]) -> None:
    """Owner and executor may report in any order."""
    events = session_events()
    assert fold([events[index] for index in order]).comparable() == expected()


@quick
@given(again=st.lists(st.sampled_from(range(len(session_events()))), max_size=60))
def test_events_that_come_again_change_nothing(again: list[int]) -> None:
    """Ray sends a batch again when the answer was slow."""
    events = session_events()
    folded = fold([*events, *(events[index] for index in again)])
    assert folded.comparable() == expected()


@quick
@given(
    homes=st.lists(
        st.integers(0, 3), min_size=len(session_events()), max_size=len(session_events())
    ),
    partitions=st.integers(1, 5),
)
def test_any_split_into_files_gives_the_same_records(homes: list[int], partitions: int) -> None:
    """Which file an event is in, and who reads it, decides nothing."""
    files: list[list[Json]] = [[], [], [], []]
    for event, home in zip(session_events(), homes, strict=True):
        files[home].append(event)
    folded = fold_bodies([lines(events) for events in files], partitions=partitions)
    assert folded.comparable() == expected()


@pytest.mark.parametrize("reverse", [False, True])
def test_the_error_of_a_failed_task_survives_either_file_order(reverse: bool) -> None:
    """The peer's fault: errors vanished when the head's node id sorted first."""
    events = session_events()
    with_error = [event for event in events if "rayErrorInfo" in json.dumps(event)]
    rest = [event for event in events if event not in with_error]
    files = [lines(with_error), lines(rest)]
    folded = fold_bodies(files[::-1] if reverse else files)
    assert folded.comparable() == expected()
    assert "TASK_EXECUTION_EXCEPTION" in {row[14] for row in folded.comparable()[0]}


def snake_keys(value: object) -> object:
    """Rename camelCase keys as Ray does with PRESERVE_PROTO_FIELD_NAME."""
    maps = {"labels", "resources", "requiredResources", "metadata", "labelSelector", "refIds"}
    if isinstance(value, dict):
        return {
            "".join(f"_{c.lower()}" if c.isupper() else c for c in key): (
                item if key in maps else snake_keys(item)
            )
            for key, item in value.items()
        }
    return [snake_keys(item) for item in value] if isinstance(value, list) else value


def test_snake_case_events_give_the_same_records() -> None:
    """Ray can be set to keep the protobuf's names."""
    events = [snake_keys(event) for event in session_events()]
    assert fold(events).comparable() == expected()  # type: ignore[arg-type]
