"""The demo's checks notice wrong answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from demo.checks import CHECKS, Session, WrongAnswer, check_job, run_checks


class Answers(BaseHTTPRequestHandler):
    """Answers every request with the same JSON."""

    body: object = {}
    status = 200

    def do_GET(self) -> None:
        """Send it."""
        raw = json.dumps(self.body).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def session() -> Iterator[Session]:
    """A server that answers `Answers.body`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Session(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_wrong_status_fails(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error status is a wrong answer and names the path."""
    monkeypatch.setattr(Answers, "status", 500)
    with pytest.raises(WrongAnswer, match="/api/jobs/demo-job: status 500"):
        check_job(session)


def test_wrong_value_fails(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that did not succeed is a wrong answer."""
    monkeypatch.setattr(Answers, "body", {"status": "FAILED"})
    with pytest.raises(WrongAnswer, match="expected status SUCCEEDED, got 'FAILED'"):
        check_job(session)


def test_no_check_passes_on_empty_answers(session: Session) -> None:
    """A server that knows nothing fails every check, without a stack trace."""
    results = list(run_checks(session))
    assert len(results) == len(CHECKS)
    assert [passed for passed, _ in results] == [False] * len(CHECKS)
