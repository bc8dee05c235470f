"""What a compiled session says of itself: the `meta` table, typed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from historyserver.folding.session_state import SessionState


class MetaError(Exception):
    """The `meta` table is not one that this version wrote."""


class Meta(msgspec.Struct, kw_only=True, frozen=True):
    """Facts of a compiled session, each one row of `meta` under its field's name, as JSON."""

    schema_version: int
    fingerprint: str
    """Of the source that was read; see `reading.source.SessionSource`."""
    namespace: str
    cluster: str
    session: str
    owner_kind: str = ""
    owner_name: str = ""
    generation: str = ""
    """Which layout the session was read from: `A`, `B`, `C-`, `C` or `ours`."""
    state: str = ""
    """A `SessionState`."""
    start_ms: int = 0
    end_ms: int = 0
    """When the session ended: its end marker, or else the last time that anything tells of."""
    is_end_known: bool = False
    """`end_ms` comes from an end marker, not from the last thing seen."""
    session_dir: str = ""
    """Ray's session directory as its log paths show it, `/tmp/ray/session_...`."""
    ray_version: str = ""
    python_version: str = ""
    counts: dict[str, int] = {}
    """Rows per table, events per type, and `events` in all."""
    skipped: dict[str, int] = {}
    """Events, lines and snapshots that were left out, by enumerated reason."""
    damage: dict[str, int] = {}
    """What was torn or corrupt in the source, by reason; the rest was read."""
    dropped_events: int = 0
    """Events that a collector says it lost before they reached storage."""
    quarantined_events: int = 0
    log_gaps: int = 0
    """Ranges of log files that a collector says it could not store."""
    compiled_ms: int = 0
    """When the file was made."""
    compile_duration_ms: int = 0

    @property
    def is_running(self) -> bool:
        """Whether something of the session may still run."""
        return self.state == SessionState.RUNNING


def meta_rows(meta: Meta) -> list[tuple[str, str]]:
    """Turn the facts into the rows of the `meta` table."""
    return [
        (name, msgspec.json.encode(value).decode())
        for name, value in msgspec.structs.asdict(meta).items()
    ]


def meta_from_rows(rows: Iterable[tuple[str, str]]) -> Meta:
    """Read the facts back. Raises `MetaError` when a row is not what this version writes."""
    try:
        values = {name: msgspec.json.decode(value) for name, value in rows}
        return msgspec.convert(values, Meta)
    except (msgspec.MsgspecError, TypeError) as error:
        raise MetaError(f"the meta table cannot be read: {error}") from error
