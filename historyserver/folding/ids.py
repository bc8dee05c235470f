"""Ray ids: base64 in events, hex everywhere else.

Events carry the standard alphabet with padding (measured); the URL alphabet, missing padding
and hex are read as well, since older collectors rewrote some of them.
"""

from __future__ import annotations

import binascii

TASK_ID_BYTES = 24
ACTOR_ID_BYTES = 16
JOB_ID_BYTES = 4
NODE_ID_BYTES = 28
WORKER_ID_BYTES = 28
PLACEMENT_GROUP_ID_BYTES = 18

_URL_TO_STANDARD = str.maketrans("-_", "+/")


class BadIdError(ValueError):
    """The text is no id of the expected length."""


def parse_id(text: str, size_bytes: int) -> bytes:
    """Read an id of a known length, whichever way it is written.

    The length decides: hex is longer than base64 for every kind of id, but for job ids, whose
    base64 ends in `=` or has no eight characters.
    """
    if len(text) == 2 * size_bytes and not text.endswith("="):
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    padded = text.translate(_URL_TO_STANDARD).rstrip("=")
    padded += "=" * (-len(padded) % 4)
    try:
        raw = binascii.a2b_base64(padded, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise BadIdError(f"{text[:80]!r} is no id") from error
    if len(raw) != size_bytes:
        raise BadIdError(f"{text[:80]!r} has {len(raw)} bytes, not {size_bytes}")
    return raw


def is_nil(raw: bytes) -> bool:
    """Tell whether an id is Ray's nil: every bit set."""
    return raw.count(0xFF) == len(raw)


class HexIds(dict[str, str]):
    """Turns the ids of one kind into hex, remembering those seen: few kinds repeat very often.

    The nil id and the empty text become the empty string, where Ray's API shows null. Looking an
    id up raises `BadIdError`.
    """

    def __init__(self, size_bytes: int) -> None:
        super().__init__({"": ""})
        self._size_bytes = size_bytes

    def __missing__(self, text: str) -> str:
        raw = parse_id(text, self._size_bytes)
        found = self[text] = "" if is_nil(raw) else raw.hex()
        return found
