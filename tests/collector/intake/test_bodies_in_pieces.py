"""Bodies of very many events: taken piece by piece, and cut only between two events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.intake import envelope, pieces
from collector.intake.envelope import BodyError, Reason
from tests.collector.events import body, task_body, task_event
from tests.collector.intake.intake_rig import IntakeRig, stored_ids


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of some hundred events are very large ones here."""
    monkeypatch.setattr(pieces, "MAX_COMMAS", 200)
    monkeypatch.setattr(envelope, "MAX_COMMAS", 200)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 2000)


def test_every_event_of_a_very_large_batch_is_stored(tmp_path: Path) -> None:
    """What a Ray that was told to send its whole buffer at once loses is nothing."""
    rig = IntakeRig(tmp_path)
    assert rig.commit(task_body(0, 500)) == [None]
    assert len(stored_ids(tmp_path)) == 500
    assert set(stored_ids(tmp_path).values()) == {1}


@pytest.mark.parametrize("indent", [None, 1])
def test_places_that_only_look_like_ends_are_no_cuts(indent: int | None) -> None:
    """Objects in lists, and the same characters in strings."""
    events = [
        task_event(number) | {"list": [{"a": 1}, {"b": 2}] * 3, "message": 'x"},{"y' * 3}
        for number in range(60)
    ]
    found = [list(piece) for piece in pieces.pieces(json.dumps(events, indent=indent).encode())]
    assert len(found) > 10
    assert [json.loads(bytes(raw)) for piece in found for raw in piece] == events


def test_the_start_of_a_torn_batch_is_stored(tmp_path: Path) -> None:
    """Events before the fault are good ones."""
    rig = IntakeRig(tmp_path)
    assert rig.commit(task_body(0, 300)[:-20]) == [None]
    assert 250 < len(stored_ids(tmp_path)) < 300
    assert rig.metric("events_quarantined_total", reason=Reason.BODY_NOT_JSON.value) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"1," * 3000 + b"1]",
        b"[" + b"{}," * 3000 + b"{}]",
        body([{}, {}] * 2000),
    ],
)
def test_what_cannot_be_cut_is_refused(data: bytes) -> None:
    """Each part costs memory: a small body could take gigabytes."""
    with pytest.raises(BodyError) as caught:
        list(pieces.pieces(data))
    assert caught.value.reason is Reason.BODY_TOO_MANY_PARTS


def test_more_parts_than_any_buffer_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it could be cut."""
    monkeypatch.setattr(pieces, "MAX_COMMAS_IN_ALL", 1000)
    with pytest.raises(BodyError):
        list(pieces.pieces(task_body(0, 300)))
