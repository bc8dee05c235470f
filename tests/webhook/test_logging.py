"""Log lines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from webhook import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the log goes; what was set up before comes back after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_lines_are_json_with_the_fields_of_the_other_programs(stream: io.StringIO) -> None:
    """time, level, logger, message, then what the caller gave; a trace in `exception`."""
    logs.set_up(level="info", stream=stream)
    log = logging.getLogger("webhook.some")
    log.debug("hidden")
    log.warning("first", extra={"pod": "a", "_other_library": 1})
    try:
        int("bad")
    except ValueError:
        log.exception("second %s", "one")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert list(first) == ["time", "level", "logger", "message", "pod"]
    assert (first["level"], first["logger"], first["message"]) == (
        "warning",
        "webhook.some",
        "first",
    )
    assert first["time"].endswith("+00:00")
    assert second["message"] == "second one"
    assert "ValueError: invalid literal" in second["exception"]


def test_lines_on_a_terminal_are_text(stream: io.StringIO) -> None:
    """For people."""
    stream.isatty = lambda: True  # type: ignore[method-assign]
    logs.set_up(level="info", stream=stream)
    logging.getLogger("webhook.some").info("said", extra={"pod": "a"})
    assert stream.getvalue().endswith(" info webhook.some said pod=a\n")
