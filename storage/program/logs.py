"""Logging: one JSON object per line on stdout, or plain text on a terminal.

Messages are short and constant; what varies is in fields (`extra=`). Never logged: the
content of events and logs, tokens, values of the environment.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from storage.program.option_values import text
from storage.program.options import Option

LOG_OPTIONS: tuple[Option, ...] = (
    Option(
        name="log-level",
        default="info",
        help="Which messages are logged.",
        parse=text,
        env=("LOG_LEVEL",),
        choices=("debug", "info", "warning", "error"),
    ),
    Option(
        name="log-format",
        default="auto",
        help="`auto` is text on a terminal and JSON elsewhere.",
        parse=text,
        env=("LOG_FORMAT",),
        choices=("auto", "json", "text"),
    ),
)

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """What the caller gave as `extra`; names with `_` are other libraries' own."""
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _STANDARD and not name.startswith("_")
    }


class JsonFormatter(logging.Formatter):
    """`{"time": ..., "level": ..., "logger": ..., "message": ..., <fields>}`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback goes into the field `exception`."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """`12:34:56 warning collector.intake refused reason=busy`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it."""
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        parts = (time, record.levelname.lower(), record.name, record.getMessage(), fields)
        line = " ".join(part for part in parts if part)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def set_up(*, level: str, style: str, stream: TextIO | None = None) -> None:
    """Send all logging to stdout. `style` is `json`, `text` or `auto`."""
    out = stream if stream is not None else sys.stdout
    as_text = style == "text" or (style == "auto" and out.isatty())
    handler = logging.StreamHandler(out)
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
