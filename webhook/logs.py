"""Logging: one JSON object per line on stdout, or plain text on a terminal.

Field names are those of the other programs: time, level, logger, message, exception, and what
the caller gives as `extra`. Never logged: pods, environment values, tokens.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.msgspec import MsgspecFormatter


class JsonFormatter(MsgspecFormatter):
    """`{"time": ..., "level": ..., "logger": ..., "message": ..., <fields>}`."""

    def __init__(self) -> None:
        super().__init__(
            ["message"],
            rename_fields={"exc_info": "exception"},
            reserved_attrs=[*RESERVED_ATTRS, "taskName"],
        )

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """Put when, how grave and where first."""
        time = datetime.fromtimestamp(record.created, UTC)
        log_data["time"] = time.isoformat(timespec="milliseconds")
        log_data["level"] = record.levelname.lower()
        log_data["logger"] = record.name
        super().add_fields(log_data, record, message_dict)


class TextFormatter(logging.Formatter):
    """`12:34:56 warning webhook.admission review reason=lookup_failed`."""

    _shown = frozenset({*RESERVED_ATTRS, "taskName"})

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it."""
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        fields = " ".join(
            f"{name}={value}"
            for name, value in vars(record).items()
            if name not in self._shown and not name.startswith("_")  # other libraries' own
        )
        parts = (time, record.levelname.lower(), record.name, record.getMessage(), fields)
        line = " ".join(part for part in parts if part)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def set_up(*, level: str, stream: TextIO | None = None) -> None:
    """Send all logging to stdout."""
    out = stream if stream is not None else sys.stdout
    handler = logging.StreamHandler(out)
    handler.setFormatter(TextFormatter() if out.isatty() else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
