"""Probes, metrics and logs."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import urllib3

from certs import logs
from certs.health import HealthServer
from certs.metrics import CertsMetrics


class Problems:
    """What the probes say."""

    alive = ""
    ready = ""


@pytest.fixture
def problems() -> Problems:
    return Problems()


@pytest.fixture
def server(problems: Problems) -> Iterator[HealthServer]:
    made = HealthServer(
        address="127.0.0.1",
        port=0,
        alive=lambda: problems.alive,
        ready=lambda: problems.ready,
        metrics=CertsMetrics(),
    )
    made.start()
    yield made
    made.close()


def page(server: HealthServer, path: str) -> tuple[int, str]:
    answer = urllib3.request("GET", f"http://127.0.0.1:{server.port}{path}", retries=False)
    return answer.status, answer.data.decode()


def test_probes_say_what_is_wrong(server: HealthServer, problems: Problems) -> None:
    """503 with the reason."""
    assert page(server, "/healthz") == page(server, "/readyz?verbose") == (200, "ok\n")
    problems.ready = "there is no certificate"
    assert page(server, "/readyz") == (503, "there is no certificate\n")
    assert page(server, "/healthz")[0] == 200
    problems.alive = "no turn since 0:04:00"
    assert page(server, "/healthz") == (503, "no turn since 0:04:00\n")
    assert page(server, "/")[0] == 404


def test_metrics_are_there_from_the_beginning(server: HealthServer) -> None:
    """With 0, so that a rate is known at the first change."""
    status, text = page(server, "/metrics")
    assert status == 200
    for line in (
        "rayhistory_certs_leader 0.0",
        "rayhistory_certs_leaf_not_after_timestamp_seconds 0.0",
        'rayhistory_certs_rotations_total{kind="leaf",reason="expiring"} 0.0',
        'rayhistory_certs_errors_total{reason="forbidden"} 0.0',
    ):
        assert line in text


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    before, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:], logger.level = before, level


def test_a_log_line_is_one_json_object(root: logging.Logger) -> None:
    """With what the caller gave, and the traceback."""
    stream = io.StringIO()
    logs.set_up(level="info", stream=stream)
    logging.getLogger("certs.x").info("done", extra={"step": "Publish", "at": {1}})
    logging.getLogger("certs.x").debug("not shown")
    try:
        int("broken")
    except ValueError:
        logging.getLogger("certs.x").exception("failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["level"] == "info"
    assert first["logger"] == "certs.x"
    assert (first["message"], first["step"]) == ("done", "Publish")
    assert "ValueError: invalid literal" in second["exception"]
    assert root.level == logging.INFO


def test_on_a_terminal_it_is_plain_text(root: logging.Logger) -> None:
    """For people."""
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    logs.set_up(level="info", stream=stream)
    logging.getLogger("certs.x").info("done", extra={"step": "Publish"})
    assert stream.getvalue().endswith(" info certs.x done step=Publish\n")
    assert len(root.handlers) == 1


def test_the_client_s_own_logs_are_never_at_debug(root: logging.Logger) -> None:
    """They hold answers of the API server, and so the Secret."""
    logs.set_up(level="debug", stream=sys.stderr)
    assert root.level == logging.DEBUG
    assert logging.getLogger("kubernetes").getEffectiveLevel() == logging.WARNING
    assert logging.getLogger("urllib3").getEffectiveLevel() == logging.WARNING
