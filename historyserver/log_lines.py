"""Logs on stdout: JSON lines, or plain text on a terminal. One canonical line per request.

A line never holds cookies, headers, query values or log content.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

FIELDS = "fields"
"""The key in `extra=` under which a line's own fields come."""


class JsonLines(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record; an exception is in `error`, in one string."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class PlainLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record with its fields as `name=value`."""
        text = super().format(record)
        fields = getattr(record, FIELDS, {})
        return " ".join([text, *(f"{k}={v}" for k, v in fields.items() if v not in ("", None))])


def configure(level: str) -> None:
    """Set the root logger up; called once, by the program."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        PlainLines("%(asctime)s %(levelname)s %(message)s") if sys.stdout.isatty() else JsonLines()
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
