"""Which object keys every backend can hold: one rule, checked before any store is asked.

S3 and GCS allow 1,024 bytes, OSS 1,023. GCS refuses line breaks and S3's XML listings cannot
carry control characters. `.` and `..` and empty parts do not survive file systems, URLs or
Go's `path.Join`, which KubeRay's tools use.
"""

from __future__ import annotations

from storage.backend import InvalidKeyError

MAX_KEY_BYTES = 1023
"""Of the whole key, the root prefix included."""

_SHOWN_CHARACTERS = 120


def shown(key: str) -> str:
    """The key as it may stand in a message: one line, not endless, never undecodable."""
    text = key.encode("utf-8", "backslashreplace").decode("utf-8")
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def part_fault(part: str) -> str | None:
    """Why this part of a key (between two `/`) cannot be stored; None when it can."""
    if part == "":
        return "it has an empty part"
    if part in {".", ".."}:
        return f"it has the part {part!r}"
    return _text_fault(part)


def check_key(key: str) -> str:
    """Give the key back, or raise `InvalidKeyError` that says what is wrong with it."""
    fault = _length_fault(key)
    for part in key.split("/"):
        fault = fault or part_fault(part)
    if fault is not None:
        raise InvalidKeyError(f"{shown(key)!r}: not a key that every store can hold: {fault}")
    return key


def check_prefix(prefix: str) -> str:
    """Like `check_key` for the start of a key: may be empty, its last part may be partial."""
    *whole, partial = prefix.split("/")
    fault = _length_fault(prefix) or _text_fault(partial)
    for part in whole:
        fault = fault or part_fault(part)
    if fault is not None:
        raise InvalidKeyError(f"{shown(prefix)!r}: not the start of any key: {fault}")
    return prefix


def check_root(root: str) -> str:
    """A root prefix as users write it (`log`, `/log/`), without slashes at its ends."""
    trimmed = root.strip("/")
    return check_key(trimmed) if trimmed else ""


def _length_fault(key: str) -> str | None:
    size_bytes = len(key.encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_KEY_BYTES:
        return f"it has {size_bytes} bytes, more than {MAX_KEY_BYTES}"
    return None


def _text_fault(text: str) -> str | None:
    for character in text:
        point = ord(character)
        if point < 0x20 or point == 0x7F:
            return f"it has the control character 0x{point:02x}"
        if 0xD800 <= point <= 0xDFFF:
            return "it is not valid Unicode"
    return None
