"""Why an event, or a part of one, was left out."""

from __future__ import annotations

from enum import StrEnum


class SkipReason(StrEnum):
    """One reason per way in which an event can be unusable; the name in logs, metrics and meta."""

    NOT_JSON = "not_json"
    NOT_AN_EVENT = "not_an_event"
    """JSON, but no object with an event type."""
    WRONG_TYPE = "wrong_type"
    """A field holds another type than Ray's protobuf says."""
    UNKNOWN_TYPE = "unknown_type"
    """An event type that this version does not fold; counted by name too."""
    NO_PAYLOAD = "no_payload"
    BAD_ID = "bad_id"
    BAD_TIME = "bad_time"
    """One state transition without a readable time; the rest of its event is used."""
    NO_STATE = "no_state"
    """One state transition without a state; the rest of its event is used."""
    BAD_ATTEMPT = "bad_attempt"


class UnusableEventError(ValueError):
    """The event cannot be folded; carries why."""

    def __init__(self, reason: SkipReason) -> None:
        super().__init__(reason)
        self.reason = reason
