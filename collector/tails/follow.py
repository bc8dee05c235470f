"""Follows all log files of one session: what is new, in frames, across rotation and deletion."""

from __future__ import annotations

import fnmatch
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from collector.ray_session import RaySession
from collector.tails.descriptors import Descriptors
from collector.tails.files import FileId, SeenFile, SkipReason, list_logs
from collector.tails.frames import FRAME_RAW_BYTES, LogFrameData, compress, cut_at_line_end
from collector.tails.inside import true_root
from collector.tails.names import settle_names
from collector.tails.tailed import LogEndReason, TailedLog, TailState, mark_of

READ_CHUNK_BYTES = 1024 * 1024

REWRITTEN_NAMES = ("debug_state*.txt",)
"""Files that Ray writes anew in place (the raylet every 10 s): only the last content counts."""

REWRITTEN_INTERVAL_S = 60.0
"""How often such a file is stored again while it changes."""

_TRUNCATIONS_OF_A_REWRITTEN_FILE = 8

_log = logging.getLogger(__name__)


class LogChangedError(Exception):
    """A log got shorter while it was read: look again and start over."""


class LogTails:
    """The log files of one session directory, each read once from its start to its end.

    `scan` looks at the directory; `read` yields frames of what is new; `commit` says that
    frames are in storage, `rewind` that they are not and must be read again. Only what is
    committed survives a restart (`states`). One thread uses all of this; `content` may be
    called from any thread.

    Memory is bounded by one frame, whatever the size of a log. A file that Ray rotates
    away is read to its end through its open descriptor, even after its deletion.

    Args:
        session: whose logs.
        restored: what an earlier process had read.
        claimed: files, with their size, that belong to another node of this session: the one
            that a restarted worker container was before. One that grows is followed.
        max_open_files: descriptors held at once.
        retain_bytes: how much unread content of deleted files may be held on disk by open
            descriptors while storage is down; beyond it the largest becomes a gap.
        monotonic: the clock of `quiet_s`.

    """

    def __init__(
        self,
        session: RaySession,
        *,
        restored: Sequence[TailState] = (),
        claimed: Mapping[FileId, int] | None = None,
        max_open_files: int = 256,
        retain_bytes: int = 1024**3,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._claimed = dict(claimed or {})
        self._retain_bytes = retain_bytes
        self._monotonic = monotonic
        self._descriptors = Descriptors(limit=max_open_files, root=true_root(session.session_dir))
        self._logs = {state.incarnation: TailedLog.restored(state) for state in restored}
        self._by_id = {log.file_id: log for log in self._logs.values() if not log.gone}
        self._changed_s = monotonic()
        self.skipped: Counter[SkipReason] = Counter()
        self._ended: Counter[LogEndReason] = Counter()

    # -- looking -------------------------------------------------------------------------

    def scan(self, *, final: bool = False) -> None:
        """Look at the directory: new files, new names, growth, truncation, deletion.

        Args:
            final: take files that are rewritten as they are now, however lately they were.

        """
        listing = list_logs(self._session.logs_dir, self._session.session_dir)
        self.skipped = listing.skipped
        for file_id, log in list(self._by_id.items()):
            seen = listing.files.get(file_id)
            if seen is None:
                self._vanish(log)
            else:
                self._see(log, seen, final=final)
        for file_id, seen in listing.files.items():
            if file_id not in self._by_id and seen.size_bytes != self._claimed.get(file_id):
                self._follow(seen)
        self._limit_retained()
        settle_names(self._logs.values())

    def _see(self, log: TailedLog, seen: SeenFile, *, final: bool) -> None:
        if (seen.size_bytes, seen.modified_ns) != (log.size_bytes, log.modified_ns):
            self._changed_s = self._monotonic()
        if log.rewritten:
            waited_s = self._monotonic() - log.read_s
            if seen.modified_ns != log.stored_ns and (final or waited_s >= REWRITTEN_INTERVAL_S):
                log.read_offset = 0
            elif log.read_offset:
                log.read_offset = seen.size_bytes
        elif seen.size_bytes < log.read_offset:
            self._replace(log, seen)
            return
        log.path, log.local = seen.path, seen.local
        log.size_bytes, log.modified_ns = seen.size_bytes, seen.modified_ns

    def _follow(self, seen: SeenFile, *, truncations: int = 0) -> None:
        number = 0
        prefix = f"{seen.file_id.device:x}-{seen.file_id.inode:x}"
        while (incarnation := f"{prefix}-{number}") in self._logs:
            number += 1
        rewritten = truncations >= _TRUNCATIONS_OF_A_REWRITTEN_FILE or any(
            fnmatch.fnmatchcase(seen.path, pattern) for pattern in REWRITTEN_NAMES
        )
        log = TailedLog(
            incarnation=incarnation,
            file_id=seen.file_id,
            path=seen.path,
            local=seen.local,
            size_bytes=seen.size_bytes,
            modified_ns=seen.modified_ns,
            rewritten=rewritten,
            truncations=truncations,
        )
        self._logs[incarnation] = self._by_id[seen.file_id] = log
        self._changed_s = self._monotonic()
        if not self._descriptors.full:
            self._descriptors.get(log)

    def _replace(self, log: TailedLog, seen: SeenFile) -> None:
        """The file holds other content than what was read: one incarnation ends, one begins."""
        self._end(log, LogEndReason.TRUNCATED)
        self._follow(seen, truncations=log.truncations + 1)

    def _vanish(self, log: TailedLog) -> None:
        log.local = None
        if not log.vanished:
            log.vanished = True
            self._changed_s = self._monotonic()
        if self._descriptors.holds(log.incarnation):
            descriptor = self._descriptors.get(log)
            if descriptor is not None:
                log.size_bytes = max(log.offset, os.fstat(descriptor).st_size)
            if log.offset < log.size_bytes or log.read_offset > log.offset:
                return
        self._end(log, LogEndReason.DELETED)

    def _end(self, log: TailedLog, reason: LogEndReason) -> None:
        self._ended[reason] += 1
        log.gone, log.local = True, None
        if self._by_id.get(log.file_id) is log:
            del self._by_id[log.file_id]
        self._descriptors.close(log.incarnation)

    def _limit_retained(self) -> None:
        held = sorted((log for log in self._by_id.values() if log.vanished), key=_unread)
        total_bytes = sum(_unread(log) for log in held)
        while held and total_bytes > self._retain_bytes:
            log = held.pop()
            total_bytes -= _unread(log)
            _log.warning(
                "log given up",
                extra={
                    "reason": LogEndReason.GIVEN_UP.value,
                    "path": log.path,
                    "lost_bytes": _unread(log),
                },
            )
            self._end(log, LogEndReason.GIVEN_UP)

    def quiet_s(self) -> float:
        """Seconds since a scan last saw any log appear, grow or vanish."""
        return self._monotonic() - self._changed_s

    # -- reading -------------------------------------------------------------------------

    def unread_bytes(self) -> int:
        """What the last scan saw and `read` has not yielded yet."""
        return sum(log.unread_bytes for log in self._by_id.values())

    def logs(self) -> list[TailedLog]:
        """All incarnations, to look at: the ones that ended too."""
        return list(self._logs.values())

    def take_ended(self) -> Counter[LogEndReason]:
        """How many incarnations ended since this was called last, by reason."""
        ended, self._ended = self._ended, Counter()
        return ended

    def states(self) -> list[TailState]:
        """What a restarted collector needs, of what is committed."""
        return [log.state() for log in self._logs.values()]

    def read(self, *, max_raw_bytes: int) -> Iterator[LogFrameData]:
        """Yield frames of what is new, in turns of one frame per file, up to about this much.

        Deleted files come first, as they can only be read now; then those with the least
        to read, so that one huge log does not delay all others.
        """
        waiting = sorted(
            (log for log in self._by_id.values() if log.unread_bytes),
            key=lambda log: (not log.vanished, log.unread_bytes),
        )
        budget_bytes = max_raw_bytes
        while waiting and budget_bytes > 0:
            again: list[TailedLog] = []
            for log in waiting:
                frame = self._next_frame(log)
                if frame is None:
                    continue
                yield frame
                budget_bytes -= frame.log_length
                if log.unread_bytes:
                    again.append(log)
                if budget_bytes <= 0:
                    return
            waiting = again

    def _next_frame(self, log: TailedLog) -> LogFrameData | None:
        descriptor = self._descriptors.get(log, keep=self._vanished())
        if descriptor is None:
            return None
        first_of_turn = log.read_offset == log.offset and not log.rewritten
        if first_of_turn and log.offset and mark_of(descriptor, log.offset) != log.mark:
            status = os.fstat(descriptor)
            if log.local is None:
                self._end(log, LogEndReason.TRUNCATED)
            else:
                self._replace(log, _seen(log, status))
            return None
        raw = os.pread(descriptor, FRAME_RAW_BYTES, log.read_offset)
        if not raw:
            return None
        start = log.read_offset
        if log.rewritten and start == 0:
            log.read_s, log.reading_ns = self._monotonic(), os.fstat(descriptor).st_mtime_ns
        raw = cut_at_line_end(raw, more_follows=start + len(raw) < log.size_bytes)
        log.read_offset = start + len(raw)
        log.size_bytes = max(log.size_bytes, log.read_offset)
        return LogFrameData(log.incarnation, start, len(raw), compress(raw))

    def _vanished(self) -> set[str]:
        return {log.incarnation for log in self._by_id.values() if log.vanished}

    def commit(self, frames: Iterable[LogFrameData]) -> None:
        """These frames, in the order they were read, are in storage and will be remembered."""
        for incarnation, end in {f.incarnation: f.log_start + f.log_length for f in frames}.items():
            self.stored(incarnation, end)

    def stored(self, incarnation: str, offset: int) -> None:
        """The first `offset` bytes of this incarnation are in storage."""
        log = self._logs[incarnation]
        log.offset = offset
        log.read_offset = max(offset, 0 if log.rewritten else log.read_offset)
        log.stored_ns = log.reading_ns
        if log.gone:
            return
        descriptor = self._descriptors.get(log, keep=self._vanished())
        if descriptor is not None:
            log.mark = mark_of(descriptor, offset)
        if log.vanished and log.offset >= log.size_bytes:
            self._end(log, LogEndReason.DELETED)

    def reset(self, incarnation: str) -> None:
        """Read this log from its start again: what storage has of it will be replaced."""
        log = self._logs[incarnation]
        log.offset = log.read_offset = 0
        log.mark = ""

    def is_rewritten(self, incarnation: str) -> bool:
        """Whether only the last content of this file counts."""
        return self._logs[incarnation].rewritten

    def rewind(self) -> None:
        """What was read and not committed did not reach storage: read it again."""
        for log in self._logs.values():
            log.read_offset = 0 if log.rewritten else log.offset

    def adopt(self, states: Iterable[TailState]) -> list[str]:
        """Take over what storage has of files that this disk knows nothing about.

        Called when the local state was lost but the manifest in storage is there, before
        anything is committed. A stored log whose bytes are the first bytes of a local file
        of the same name is continued; any other one is kept as an incarnation that ended.
        Returns the incarnations that are continued.
        """
        by_path = {log.path: log for log in self._by_id.values() if log.offset == 0}
        continued: list[str] = []
        for state in states:
            log = by_path.get(state.path)
            if log is not None and self._is_continuation(log, state):
                adopted = TailedLog.restored(state)
                adopted.file_id, adopted.local, adopted.gone = log.file_id, log.local, False
                adopted.size_bytes, adopted.modified_ns = log.size_bytes, log.modified_ns
                self._descriptors.close(log.incarnation)
                del self._logs[log.incarnation]
                self._by_id[log.file_id] = adopted
                continued.append(state.incarnation)
            else:
                adopted = TailedLog.restored(state)
                adopted.gone = True
            self._logs[state.incarnation] = adopted
        settle_names(self._logs.values())
        return continued

    def _is_continuation(self, log: TailedLog, state: TailState) -> bool:
        descriptor = self._descriptors.get(log)
        if descriptor is None or os.fstat(descriptor).st_size < state.offset:
            return False
        return mark_of(descriptor, state.offset) == state.mark

    def content(self, incarnation: str, start: int, end: int) -> Iterator[bytes]:
        """Yield these bytes of a file that is still there, from any thread.

        Raises `LogChangedError` when it has fewer or other bytes by now, and
        `FileNotFoundError` when it is not there any more.
        """
        log = self._logs[incarnation]
        descriptor = self._descriptors.duplicate(log)
        if descriptor is None:
            raise FileNotFoundError(f"log {log.path} is not on the disk any more")
        try:
            offset, mark = log.offset, log.mark
            if offset and mark and not log.rewritten and mark_of(descriptor, offset) != mark:
                raise LogChangedError(f"log {log.path} was written anew")
            while start < end:
                chunk = os.pread(descriptor, min(READ_CHUNK_BYTES, end - start), start)
                if not chunk:
                    raise LogChangedError(f"log {log.path} ends at {start}, not at {end}")
                start += len(chunk)
                yield chunk
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close all descriptors. Deleted files that were not read to their end are lost."""
        self._descriptors.close_all()


def _unread(log: TailedLog) -> int:
    return max(0, log.size_bytes - log.offset)


def _seen(log: TailedLog, status: os.stat_result) -> SeenFile:
    if log.local is None:
        raise ValueError(f"{log.path} has no place on the disk")
    return SeenFile(log.path, log.local, FileId.of(status), status.st_size, status.st_mtime_ns)
