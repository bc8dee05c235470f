"""The log format: JSON lines for machines, text for people."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.program import logs


@pytest.fixture
def root_logging() -> Iterator[None]:
    """Puts the root logger back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def log_of(style: str, level: str) -> str:
    stream = io.StringIO()
    logs.set_up(level=level, style=style, stream=stream)
    log = logging.getLogger("a.test")
    log.debug("hidden")
    log.warning("odd thing", extra={"reason": "because", "path": Path("/x")})
    try:
        int("told")
    except ValueError:
        log.exception("failed")
    return stream.getvalue()


@pytest.mark.usefixtures("root_logging")
def test_json_is_one_object_per_line() -> None:
    """With the fields beside the message, and a traceback inside."""
    first, second = map(json.loads, log_of("auto", "info").splitlines())
    assert (first["level"], first["logger"]) == ("warning", "a.test")
    assert (first["message"], first["reason"], first["path"]) == ("odd thing", "because", "/x")
    assert first["time"].endswith("+00:00")
    assert "ValueError: invalid" in second["exception"]


@pytest.mark.usefixtures("root_logging")
def test_text_is_for_people() -> None:
    """One line, then the traceback."""
    lines = log_of("text", "warning").splitlines()
    assert lines[0].endswith("warning a.test odd thing reason=because path=/x")
    assert lines[-1].startswith("ValueError: invalid")


@pytest.mark.usefixtures("root_logging")
def test_the_level_is_obeyed() -> None:
    """Errors only."""
    assert "odd thing" not in log_of("json", "error")
