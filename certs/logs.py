"""Logging: one JSON object per line on stdout, or plain text on a terminal.

Field names are those of the other programs: time, level, logger, message, exception, and what
the caller gives as `extra`. Never logged: keys, tokens.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import msgspec

_OWN = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "exc_info", "exc_text"}
)
"""What every record has; the rest came as `extra`."""


class JsonFormatter(logging.Formatter):
    """`{"time": ..., "level": ..., "logger": ..., "message": ..., <fields>}`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextFormatter(logging.Formatter):
    """`12:34:56 warning certs.keeper files written leaf=...`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it."""
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        fields = (f"{name}={value}" for name, value in _extra(record).items())
        parts = (time, record.levelname.lower(), record.name, record.getMessage(), *fields)
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up(*, level: str, stream: TextIO | None = None) -> None:
    """Send all logging to stdout."""
    out = stream if stream is not None else sys.stdout
    handler = logging.StreamHandler(out)
    handler.setFormatter(TextFormatter() if out.isatty() else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # What it says at "debug" holds the answers of the API server, and so the Secret.
    for name in ("kubernetes", "urllib3"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}
