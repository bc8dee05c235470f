"""Ask a list of requests and keep the answers: the same code for the live dashboard and ours.

`python -m tests.fidelity.asking BASE_URL FILE SETTLE_S` captures a live dashboard (run inside its
namespace). `FILE` is JSON lines, one `Answer` each, in the order asked.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.fidelity.requests import (
    JOBS,
    Request,
    disturbing_round,
    first_round,
    library_logs,
    second_round,
    third_round,
)

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; `body` is the JSON value, or the text when it is not JSON."""

    endpoint: str
    path: str
    status: int
    content_type: str
    body: Any
    taken_ms: int = 0


def ask(base_url: str, requests: Iterable[Request]) -> Iterator[Answer]:
    """Ask each request once; an HTTP error is an answer, too."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for request in requests:
        try:
            with opener.open(base_url + request.path, timeout=TIMEOUT_S) as response:
                status, headers, raw = response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            status, headers, raw = error.code, error.headers, error.read()
        content_type = headers.get("Content-Type") or ""
        text = raw.decode("utf-8", errors="replace")
        body: Any = text
        if content_type.startswith("application/json"):
            body = json.loads(text)
        yield Answer(
            request.endpoint, request.path, status, content_type, body, time.time_ns() // 1_000_000
        )


def capture(base_url: str, *, settle_s: float) -> list[Answer]:
    """Ask a live dashboard everything, in the order that disturbs it least.

    What changes the cluster by being asked comes first, then a pause until the collectors'
    next snapshots show the quiet state.
    """
    jobs = next(ask(base_url, [JOBS])).body
    disturbing = list(ask(base_url, disturbing_round(jobs)))
    time.sleep(settle_s)
    answers = list(ask(base_url, first_round()))
    known = {answer.endpoint: answer.body for answer in answers}
    answers += ask(base_url, second_round(known))
    listings = {answer.path: answer.body for answer in answers if answer.endpoint == "/api/v0/logs"}
    answers += ask(base_url, third_round(listings))
    answers += ask(base_url, library_logs({answer.path: answer.body for answer in disturbing}))
    return [*answers, *disturbing]


def write(answers: Iterable[Answer], path: Path) -> None:
    """Store answers as JSON lines."""
    lines = [json.dumps(asdict(answer), ensure_ascii=False) for answer in answers]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(path: Path) -> list[Answer]:
    """The answers of a stored capture."""
    with path.open(encoding="utf-8") as lines:
        return [Answer(**json.loads(line)) for line in lines]


def repeat(answers: Iterable[Answer]) -> list[Request]:
    """The requests of a capture, to be asked again elsewhere."""
    return [Request(answer.endpoint, answer.path) for answer in answers]


if __name__ == "__main__":
    write(capture(sys.argv[1], settle_s=float(sys.argv[3])), Path(sys.argv[2]))
