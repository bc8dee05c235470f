"""Ray's log files: which there are, which is which after a rotation, and their compressed frames.

`LogTails` is used by `collector.shipping`, which stores what it yields. Nothing here knows of
storage, of events or of what the logs say.
"""

from __future__ import annotations

from collector.tails.files import SkipReason
from collector.tails.follow import LogChangedError, LogTails
from collector.tails.frames import FrameError, LogFrameData
from collector.tails.tailed import LogEndReason, TailedLog, TailState

__all__ = [
    "FrameError",
    "LogChangedError",
    "LogEndReason",
    "LogFrameData",
    "LogTails",
    "SkipReason",
    "TailState",
    "TailedLog",
]
