"""Splits a POST body into events, and reads the few envelope fields that filing them needs.

Pure. Ray posts a JSON array of events, in camelCase or (with
`..._PRESERVE_PROTO_FIELD_NAME=1`) in snake_case. The array is cut into raw slices without
decoding them; of each event only the event id, type, session name, node id and the job id
inside its payload are decoded. All else flows through untouched, so that event types of
later Ray versions are kept.
"""

from __future__ import annotations

import base64
import binascii
import re
from enum import Enum
from functools import lru_cache
from mmap import mmap

import msgspec

from storage.layout import JOB_EVENTS, NODE_EVENTS, Category, is_ray_node_id, is_session_name

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""No event of Ray comes near this; one line must stay readable in bounded memory."""

MAX_COMMAS = 1_000_000
"""Real events have about 30; a batch of 1,000 stays far below. A slice takes some 60 bytes."""

_SCAN_BYTES = 1024 * 1024

EXCERPT_BYTES = 256 * 1024
"""How much of a bad event is kept at most."""

MAX_EVENT_ID_CHARS = 256

_HEX_JOB_ID = re.compile(r"[0-9a-f]{8}")


class Reason(Enum):
    """Why something went to quarantine instead of the journal: log field and metric label."""

    BODY_NOT_JSON = "body_not_json"
    BODY_NOT_ARRAY = "body_not_array"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_MANY_PARTS = "body_too_many_parts"
    """More commas than any batch of Ray has: cutting it up would fill the memory."""
    BODY_UNDECODABLE = "body_undecodable"
    """A content encoding that we do not speak, or whose data are broken."""
    NOT_AN_OBJECT = "not_an_object"
    NO_EVENT_ID = "no_event_id"
    NO_SESSION_NAME = "no_session_name"
    BAD_SESSION_NAME = "bad_session_name"
    WRONG_TYPE = "wrong_type"
    NOT_UTF8 = "not_utf8"
    CONTROL_CHARACTER = "control_character"
    """A newline inside a string: not JSON, and it would tear the line."""
    EVENT_TOO_LARGE = "event_too_large"


class BodyError(Exception):
    """The body as a whole is not an array of events."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Event(msgspec.Struct, frozen=True):
    """One good event: where it is filed, and its line (without the newline)."""

    event_id: str
    session: str
    node_id: str
    """Hex id of the sending node; empty when the event does not say."""
    category: Category
    line: bytes


class BadEvent(msgspec.Struct, frozen=True):
    """One event that cannot be filed; it goes to quarantine and is counted by its reason."""

    reason: Reason
    raw: bytes
    """The event as it came; cut to `EXCERPT_BYTES` when it is too large."""
    size_bytes: int


class _Job(msgspec.Struct):
    job_id: str = msgspec.field(name="jobId", default="")
    job_id_snake: str = msgspec.field(name="job_id", default="")


class _Camel(msgspec.Struct, rename="camel"):
    event_id: str = ""
    event_type: str = ""
    session_name: str = ""
    node_id: str = ""
    driver_job_definition_event: _Job | None = None
    driver_job_lifecycle_event: _Job | None = None
    task_definition_event: _Job | None = None
    task_lifecycle_event: _Job | None = None
    task_profile_events: _Job | None = None
    actor_task_definition_event: _Job | None = None
    actor_definition_event: _Job | None = None


class _Snake(msgspec.Struct):
    event_id: str = ""
    event_type: str = ""
    session_name: str = ""
    node_id: str = ""
    driver_job_definition_event: _Job | None = None
    driver_job_lifecycle_event: _Job | None = None
    task_definition_event: _Job | None = None
    task_lifecycle_event: _Job | None = None
    task_profile_events: _Job | None = None
    actor_task_definition_event: _Job | None = None
    actor_definition_event: _Job | None = None


class _Bare(msgspec.Struct, rename="camel"):
    """The envelope without payloads, for events whose payload has a shape we do not know."""

    event_id: str = ""
    session_name: str = ""
    node_id: str = ""


class _BareSnake(msgspec.Struct):
    event_id: str = ""
    session_name: str = ""
    node_id: str = ""


_BARE = (_Bare, _BareSnake)
_split = msgspec.json.Decoder(list[msgspec.Raw])
_camel = msgspec.json.Decoder(_Camel)
_snake = msgspec.json.Decoder(_Snake)
_bare = msgspec.json.Decoder(_Bare)
_bare_snake = msgspec.json.Decoder(_BareSnake)


def split(body: bytes | mmap) -> list[msgspec.Raw]:
    """Cut a body into its events. Raises `BodyError` when it is not a JSON array.

    The slices refer to `body`, which must stay open as long as they are used.
    """
    if commas(body) > MAX_COMMAS:
        raise BodyError(Reason.BODY_TOO_MANY_PARTS)
    try:
        return _split.decode(body)
    except msgspec.ValidationError as error:
        raise BodyError(Reason.BODY_NOT_ARRAY) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BodyError(Reason.BODY_NOT_JSON) from error


def read_event(raw: msgspec.Raw) -> Event | BadEvent:
    """Read one event's envelope; never raises for its content."""
    view = memoryview(raw)
    if view.nbytes > MAX_EVENT_BYTES:
        return BadEvent(Reason.EVENT_TOO_LARGE, bytes(view[:EXCERPT_BYTES]), view.nbytes)
    line = bytes(raw)
    filed = _file(line)
    return filed if isinstance(filed, Event) else BadEvent(filed, line, len(line))


def _file(line: bytes) -> Event | Reason:
    """Where a line is filed, or why it cannot be."""
    if not line.startswith(b"{"):
        return Reason.NOT_AN_OBJECT
    if not line.isascii() and not _is_utf8(line):
        return Reason.NOT_UTF8
    envelope = _decode(line)
    if isinstance(envelope, Reason):
        return envelope
    fault = _envelope_fault(envelope)
    if fault is not None:
        return fault
    if b"\n" in line:
        line = msgspec.json.format(line, indent=-1)
        if b"\n" in line:
            return Reason.CONTROL_CHARACTER
    return Event(
        envelope.event_id,
        envelope.session_name,
        _node_id(envelope.node_id),
        _category(envelope),
        line,
    )


def _envelope_fault(envelope: _Camel | _Snake | _Bare | _BareSnake) -> Reason | None:
    if not envelope.event_id or len(envelope.event_id) > MAX_EVENT_ID_CHARS:
        return Reason.NO_EVENT_ID
    if not envelope.session_name:
        return Reason.NO_SESSION_NAME
    return None if is_session_name(envelope.session_name) else Reason.BAD_SESSION_NAME


def event_id_of_line(line: bytes) -> str:
    """The event id of a journal line, or empty when it has none."""
    try:
        return _bare.decode(line).event_id or _bare_snake.decode(line).event_id
    except (msgspec.DecodeError, RecursionError):
        return ""


def commas(body: bytes | mmap) -> int:
    """An upper bound on the array's length, found without cutting it."""
    if isinstance(body, bytes):
        return body.count(b",")
    with memoryview(body) as view:
        return sum(
            bytes(view[at : at + _SCAN_BYTES]).count(b",")
            for at in range(0, len(view), _SCAN_BYTES)
        )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _decode(line: bytes) -> _Camel | _Snake | _Bare | _BareSnake | Reason:
    """Decode the envelope, in the spelling that has an event id."""
    try:
        camel = _camel.decode(line)
        return camel if camel.event_id else _snake.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return _decode_bare(line)


def _decode_bare(line: bytes) -> _Bare | _BareSnake | Reason:
    try:
        bare = _bare.decode(line)
        return bare if bare.event_id else _bare_snake.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return Reason.WRONG_TYPE


def _category(envelope: _Camel | _Snake | _Bare | _BareSnake) -> Category:
    """KubeRay's rule: node events by type, else the job id inside one of seven payloads.

    An ACTOR_LIFECYCLE_EVENT names no job and so is a node event, as there.
    """
    if isinstance(envelope, _BARE) or envelope.event_type.startswith("NODE_"):
        return NODE_EVENTS
    for payload in (
        envelope.task_lifecycle_event,
        envelope.task_definition_event,
        envelope.task_profile_events,
        envelope.actor_task_definition_event,
        envelope.actor_definition_event,
        envelope.driver_job_definition_event,
        envelope.driver_job_lifecycle_event,
    ):
        if payload is not None:
            return _job_category(payload.job_id or payload.job_id_snake)
    return NODE_EVENTS


@lru_cache(maxsize=4096)
def _job_category(job_id: str) -> Category:
    """Base64 of the four raw bytes, as Ray sends it, or hex already; else no job."""
    if _HEX_JOB_ID.fullmatch(job_id):
        return (JOB_EVENTS, job_id)
    decoded = _from_base64(job_id)
    return (JOB_EVENTS, decoded.hex()) if len(decoded) == 4 else NODE_EVENTS


@lru_cache(maxsize=1024)
def _node_id(node_id: str) -> str:
    lowered = node_id.lower()
    if is_ray_node_id(lowered):
        return lowered
    decoded = _from_base64(node_id)
    return decoded.hex() if len(decoded) == 28 else ""


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
