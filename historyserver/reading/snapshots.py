"""Stored answers of the live dashboard."""

from __future__ import annotations

from historyserver.reading.blocks import is_json
from historyserver.reading.damage import DamageLog, DamageReason
from historyserver.reading.source import SnapshotFile
from storage.backend import Backend, IntegrityError, NotFoundError, read_all
from storage.wire import SNAPSHOT_MAX_BYTES, WireError, decode_snapshot

MAX_STORED_BYTES = 64 * 1024 * 1024
"""Of one stored answer; the collectors bound it to the same."""


def read_snapshot(
    backend: Backend, file: SnapshotFile, damage: DamageLog | None = None
) -> tuple[int, bytes] | None:
    """Read one answer: when it was taken (ms since the epoch) and its body.

    KubeRay keeps the body only, so the time is that of the object. None when the answer was
    an error, is damaged, or is not there any more (the latter two counted in `damage`).
    """
    damage = DamageLog() if damage is None else damage
    try:
        data = read_all(backend, file.key, max_bytes=MAX_STORED_BYTES)
        if file.framing == "plain":
            return (file.modified_ms, data) if _is_answer(data, file.key, damage) else None
        envelope = decode_snapshot(data, source=file.key, max_bytes=SNAPSHOT_MAX_BYTES)
    except NotFoundError:
        damage.add(DamageReason.OBJECT_GONE, file.key, 0)
        return None
    except (WireError, IntegrityError):
        damage.add(DamageReason.BAD_SNAPSHOT, file.key, 0)
        return None
    return (envelope.taken_ms, bytes(envelope.body)) if envelope.status == 200 else None


def _is_answer(data: bytes, key: str, damage: DamageLog) -> bool:
    """Whether a body stored as it came is whole. An empty one says that there was no answer."""
    if not data or is_json(data):
        return bool(data)
    damage.add(DamageReason.BAD_SNAPSHOT, key, len(data))
    return False
