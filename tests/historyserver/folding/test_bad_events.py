"""A bad event costs itself only, and is counted by reason."""

from __future__ import annotations

import json

import msgspec
import pytest

from historyserver.folding.entities import EntityFold
from historyserver.folding.wire import Event
from tests.historyserver.folding.folded import fold_bodies, lines
from tests.historyserver.folding.test_task_attempts import NORMAL, b64, definition, lifecycle

GOOD = lines([definition(NORMAL), lifecycle(NORMAL, ("RUNNING", 1), ("FINISHED", 2))])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{not json", "not_json"),
        (b'{"eventType": "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent": {"taskId": "\xff"}}', "not_json"),
        (b'"text"', "not_an_event"),
        (b"{}", "not_an_event"),
        (b"[1]", "not_an_event"),
        (b'{"eventType": "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent": 5}', "wrong_type"),
        (b'{"eventType": "TASK_LIFECYCLE_EVENT"}', "no_payload"),
        (b'{"eventType": "NODE_LIFECYCLE_EVENT", "nodeLifecycleEvent": null}', "no_payload"),
        (b'{"eventType": "DATASET_SNEEZED_EVENT", "datasetSneezedEvent": {}}', "unknown_type"),
        (json.dumps(lifecycle(b"short")).encode(), "bad_id"),
        (json.dumps(lifecycle(NORMAL, attempt=-1)).encode(), "bad_attempt"),
        (json.dumps(lifecycle(NORMAL, workerPid=2**70)).encode(), "wrong_type"),
        (json.dumps(definition(NORMAL, requiredResources={"CPU": "many"})).encode(), "wrong_type"),
        (b"[" * 100_000, "not_json"),
    ],
)  # fmt: skip
def test_the_others_are_folded(bad: bytes, reason: str) -> None:
    """The attempt comes out as without the bad line, which is counted."""
    folded = fold_bodies([GOOD + bad + b"\n" + GOOD])
    assert folded.skipped() == {reason: 1}
    assert folded.comparable()[0] == fold_bodies([GOOD]).comparable()[0]


def test_a_bad_time_costs_one_transition() -> None:
    """The rest of its event is used."""
    event = lifecycle(NORMAL, ("RUNNING", 1), ("FINISHED", 2))
    event["taskLifecycleEvent"]["stateTransitions"][0]["timestamp"] = "yesterday"
    folded = fold_bodies([lines([event])])
    assert folded.skipped() == {"bad_time": 1}
    assert folded.comparable()[0][0][3] == "FINISHED"


def test_a_transition_without_a_state_costs_itself() -> None:
    """The attempt keeps the states that are told."""
    event = lifecycle(NORMAL, ("RUNNING", 1), ("FINISHED", 2))
    del event["taskLifecycleEvent"]["stateTransitions"][0]["state"]
    folded = fold_bodies([lines([event])])
    assert folded.skipped() == {"no_state": 1}
    assert folded.comparable()[0][0][3] == "FINISHED"


def test_a_definition_with_a_bad_id_leaves_the_other_actors() -> None:
    """Every id of a definition is read when it comes, not when all are told."""
    fold = EntityFold()
    events = [
        {"actorDefinitionEvent": {"actorId": b64(b"a" * 16), "placementGroupId": "x"}},
        {"driverJobDefinitionEvent": {"jobId": b64(b"j" * 4), "driverNodeId": "x"}},
        {"actorDefinitionEvent": {"actorId": b64(b"b" * 16), "className": "Kept"}},
    ]
    decode = msgspec.json.Decoder(Event, strict=False).decode
    assert fold.fold(decode(json.dumps(event)) for event in events) == 2
    assert [actor.class_name for actor in fold.actors()] == ["Kept"]


def test_null_fields_read_as_absent() -> None:
    """Collectors that rewrite JSON may print null for what Ray left out."""
    event = lifecycle(NORMAL, ("FINISHED", 1))
    event["taskLifecycleEvent"] |= {"nodeId": None, "rayErrorInfo": None, "taskLogInfo": None}
    folded = fold_bodies([lines([event])])
    assert folded.skipped() == {}
    assert folded.comparable()[0][0][3] == "FINISHED"


def test_numbers_are_read_as_text_and_as_numbers() -> None:
    """64-bit integers come as strings, 32-bit ones as numbers."""
    as_text = lifecycle(NORMAL, ("FINISHED", 1), workerPid="77")
    assert fold_bodies([lines([as_text])]).comparable()[0][0][10] == 77


def test_a_huge_field_is_kept_whole() -> None:
    """An error of ten megabytes is stored, not cut."""
    info = {"errorType": "X", "errorMessage": "y" * 10_000_000}
    event = lifecycle(NORMAL, ("FAILED", 1), rayErrorInfo=info)
    (row,) = fold_bodies([lines([event])]).rows
    assert len(row[-1]) > 10_000_000


def test_unknown_fields_are_ignored() -> None:
    """Later versions of Ray add fields."""
    event = lifecycle(NORMAL, ("FINISHED", 1), newField={"a": [1]}, jobId=b64(b"\x02\0\0\0"))
    assert fold_bodies([lines([{**event, "another": 1}])]).skipped() == {}
