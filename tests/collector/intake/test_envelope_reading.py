"""Reading events out of POST bodies."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.intake import envelope
from collector.intake.envelope import BadEvent, BodyError, Event, Reason, read_event, split
from tests.collector.events import NODE, SAMPLES, SESSION, body, real_events, task_event, to_snake


def read(data: bytes) -> list[Event | BadEvent]:
    return [read_event(raw) for raw in split(data)]


def good(data: bytes) -> list[Event]:
    return [event for event in read(data) if isinstance(event, Event)]


def test_a_real_body_is_filed_by_job_and_kept_byte_for_byte() -> None:
    """The three events of a recorded POST: an actor's end is a node event, as at KubeRay."""
    data = (SAMPLES / "ray-post-body.json").read_bytes()
    events = good(data)
    assert [event.category for event in events] == [
        "node_events",
        ("job_events", "02000000"),
        ("job_events", "02000000"),
    ]
    assert {event.session for event in events} == {SESSION}
    assert {event.node_id for event in events} == {NODE}
    assert all(event.line in data for event in events)


def test_every_real_event_type_is_filed() -> None:
    """No type of 2.55 or 2.60 goes to quarantine, and only those with a job are job events."""
    for sample in real_events():
        (event,) = read(body(sample))
        assert isinstance(event, Event), sample["eventType"]
        payload = next(v for v in sample.values() if isinstance(v, dict))
        expected_job = sample["eventType"] not in {
            "ACTOR_LIFECYCLE_EVENT",
            "NODE_DEFINITION_EVENT",
            "NODE_LIFECYCLE_EVENT",
            "WORKER_DEFINITION_EVENT",
            "WORKER_LIFECYCLE_EVENT",
        }
        assert (event.category != "node_events") == (expected_job and "jobId" in payload)


def test_snake_case_events_are_filed_the_same() -> None:
    """Ray can be told to keep the proto field names."""
    for sample in real_events():
        camel, snake = good(body(sample)) + good(body(to_snake(sample)))
        assert (camel.event_id, camel.session, camel.node_id, camel.category) == (
            snake.event_id,
            snake.session,
            snake.node_id,
            snake.category,
        )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"eventId": ""}, Reason.NO_EVENT_ID),
        ({"eventId": "x" * 300}, Reason.NO_EVENT_ID),
        ({"eventId": 5}, Reason.WRONG_TYPE),
        ({"sessionName": ""}, Reason.NO_SESSION_NAME),
        ({"sessionName": None}, Reason.WRONG_TYPE),
        ({"sessionName": "../../etc"}, Reason.BAD_SESSION_NAME),
        ({"sessionName": "session_latest"}, Reason.BAD_SESSION_NAME),
        ({"sessionName": SESSION + "\x00"}, Reason.BAD_SESSION_NAME),
        ({"sessionName": "s" * 5000}, Reason.BAD_SESSION_NAME),
        ({"nodeId": ["a"]}, Reason.WRONG_TYPE),
    ],
)
def test_a_bad_envelope_has_an_enumerated_reason(change: dict[str, object], reason: Reason) -> None:
    """Each fault has its own reason, and the good event beside it is filed all the same."""
    bad, fine = read(body(task_event(1) | change, task_event(2)))
    assert isinstance(bad, BadEvent)
    assert bad.reason is reason
    assert isinstance(fine, Event)


@pytest.mark.parametrize("element", [b"1", b"null", b'"text"', b"[]", b"true", b"1e5"])
def test_an_element_that_is_no_object_is_bad(element: bytes) -> None:
    """A batch may hold anything; each element is judged alone."""
    (bad,) = read(b"[" + element + b"]")
    assert isinstance(bad, BadEvent)
    assert bad.reason is Reason.NOT_AN_OBJECT


@pytest.mark.parametrize(
    "job_id", ["", "not base64!", 7, None, "AAAA", "////////////////////////////////////////"]
)
def test_an_odd_job_id_makes_a_node_event(job_id: object) -> None:
    """A job id that is none is no reason to lose the event."""
    event = task_event(1)
    event["taskLifecycleEvent"]["jobId"] = job_id
    (filed,) = good(body(event))
    assert filed.category == "node_events"


def test_an_unknown_type_with_an_unknown_payload_flows_through() -> None:
    """Later Ray versions add types."""
    event = {"eventId": "a", "sessionName": SESSION, "eventType": "NEW", "newEvent": {"jobId": "x"}}
    (filed,) = good(body(event))
    assert json.loads(filed.line) == event


def test_a_pretty_printed_event_becomes_one_line() -> None:
    """The journal is one line per event."""
    data = json.dumps([task_event(1)], indent=2).encode()
    (filed,) = good(data)
    assert b"\n" not in filed.line
    assert json.loads(filed.line) == task_event(1)


def test_invalid_utf8_is_quarantined_and_unicode_is_kept() -> None:
    """A line that is no UTF-8 would spoil the file for every reader."""
    event = json.dumps([task_event(1) | {"message": "naïve \U0001f600"}], ensure_ascii=False)
    (filed,) = good(event.encode())
    assert "\U0001f600".encode() in filed.line
    (bad,) = read(event.encode().replace("ï".encode(), b"\xff"))
    assert isinstance(bad, BadEvent)
    assert bad.reason is Reason.NOT_UTF8


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", Reason.BODY_NOT_JSON),
        (b"hello", Reason.BODY_NOT_JSON),
        (b'[{"eventId": "a"', Reason.BODY_NOT_JSON),
        (b'[{"a":"b\nc"}]', Reason.BODY_NOT_JSON),
        (b"[" * 100_000, Reason.BODY_NOT_JSON),
        (b'[{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}]", Reason.BODY_NOT_JSON),
        (b"\x1f\x8b\x08\x00", Reason.BODY_NOT_JSON),
        (b"{}", Reason.BODY_NOT_ARRAY),
        (b"null", Reason.BODY_NOT_ARRAY),
        (b'"text"', Reason.BODY_NOT_ARRAY),
    ],
)
def test_a_body_that_is_no_array_has_a_reason(data: bytes, reason: Reason) -> None:
    """The body as a whole is refused, by reason."""
    with pytest.raises(BodyError) as caught:
        split(data)
    assert caught.value.reason is reason


def test_a_body_of_very_many_parts_is_not_cut_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice costs memory: a small body could take gigabytes."""
    monkeypatch.setattr(envelope, "MAX_COMMAS", 1000)
    with pytest.raises(BodyError) as caught:
        split(b"[" + b"1," * 1001 + b"1]")
    assert caught.value.reason is Reason.BODY_TOO_MANY_PARTS


def test_an_event_that_is_too_large_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its excerpt is kept, and its size told."""
    monkeypatch.setattr(envelope, "MAX_EVENT_BYTES", 2000)
    monkeypatch.setattr(envelope, "EXCERPT_BYTES", 100)
    bad, fine = read(body(task_event(1) | {"message": "x" * 3000}, task_event(2)))
    assert isinstance(bad, BadEvent)
    assert bad.reason is Reason.EVENT_TOO_LARGE
    assert len(bad.raw) == 100
    assert bad.size_bytes > 3000
    assert isinstance(fine, Event)


@given(st.binary(max_size=200))
def test_any_bytes_are_dealt_with(data: bytes) -> None:
    """Whatever comes: events, bad events, or a body error."""
    try:
        events = read(data)
    except BodyError:
        return
    assert all(isinstance(event, Event | BadEvent) for event in events)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["eventId", "sessionName", "nodeId", "taskLifecycleEvent", "jobId", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=5))
def test_any_json_array_gives_one_outcome_per_element(elements: list[object]) -> None:
    """No element is lost, whatever it is."""
    assert len(read(body(*elements))) == len(elements)
