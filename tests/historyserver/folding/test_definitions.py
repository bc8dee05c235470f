"""A definition that differs from one seen before only in its id is known without decoding it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from historyserver.folding.definitions import Defined, Definitions
from historyserver.folding.skips import SkipReason, UnusableEventError
from tests.historyserver.folding.test_task_attempts import NORMAL, b64, definition

OTHER = b"\x09" * 8 + NORMAL[8:]


def compact(**more: Any) -> bytes:
    """A payload without spaces, as Ray writes it."""
    payload = definition(NORMAL, **more)["taskDefinitionEvent"]
    return json.dumps(payload, separators=(",", ":")).encode()


def read(definitions: Definitions, payload: bytes) -> tuple[str, Defined]:
    """Read a payload as it is in an event."""
    return definitions.task(msgspec.Raw(payload))


def test_another_task_of_the_shape_keeps_its_own_id() -> None:
    """Shape, attempt and parent are those of the first; the id is its own."""
    definitions = Definitions()
    first = read(definitions, compact())
    second = read(definitions, compact().replace(b64(NORMAL).encode(), b64(OTHER).encode()))
    assert (first[0], second[0]) == (b64(NORMAL), b64(OTHER))
    assert second[1] is first[1]
    assert len(definitions.shapes) == 1


@pytest.mark.parametrize("change", [{"taskName": "f"}, {"taskAttempt": 1}, {"parentTaskId": ""}])
def test_any_other_difference_is_seen(change: dict[str, Any]) -> None:
    """Names, attempt numbers and parents are part of what is compared."""
    definitions = Definitions()
    first = read(definitions, compact(parentTaskId=b64(OTHER)))
    second = read(definitions, compact(**{"parentTaskId": b64(OTHER), **change}))
    assert second[1] != first[1]


@pytest.mark.parametrize("label", ["x", "A" * 32])
def test_a_label_named_like_the_id_is_not_the_id(label: str) -> None:
    """Where the field stands twice, the definition is decoded each time."""
    definitions = Definitions()
    payload = compact(labelSelector={"taskId": label})
    other = payload.replace(b64(NORMAL).encode(), b64(OTHER).encode())
    assert read(definitions, payload)[0] == b64(NORMAL)
    assert read(definitions, payload)[0] == b64(NORMAL)
    assert read(definitions, other)[0] == b64(OTHER)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", SkipReason.NO_PAYLOAD),
        (b"null", SkipReason.NO_PAYLOAD),
        (b"5", SkipReason.WRONG_TYPE),
        (b'{"taskId":"\xff"}', SkipReason.NOT_JSON),
    ],
)
def test_what_is_no_definition_says_why(payload: bytes, reason: SkipReason) -> None:
    """The reason is counted with the session's other losses."""
    with pytest.raises(UnusableEventError) as caught:
        read(Definitions(), payload)
    assert caught.value.reason is reason
