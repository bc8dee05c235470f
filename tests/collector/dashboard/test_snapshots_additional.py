"""Endpoints that the user wants besides: asked, kept as they came, stored as KubeRay does too."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.dashboard.endpoints import Endpoint, Seen, endpoints_for
from collector.dashboard.kept_answers import put_snapshot
from collector.option_values import request_paths
from storage import endpoints
from storage.backend import read_all
from storage.layout import endpoint_key, snapshot_key
from storage.local import LocalBackend
from storage.wire import decode_snapshot
from tests.collector.dashboard.dashboard_double import dashboard, poller, run
from tests.collector.shipping.shipping_kit import REF

TRAIN_RUN = "/api/train/v2/runs/v1?detail=1&name=a%2Fb"
TEXT = "/api/gcs_healthz"


def test_they_are_kept_and_stored_verbatim(tmp_path: Path) -> None:
    """JSON with its blanks, and text that is no JSON; one that is kept anyway is KubeRay's too."""

    async def test() -> None:
        async with dashboard() as board:
            board.raw[TRAIN_RUN] = b'{"b":  1.50,\n "a": 2}'
            board.raw[endpoints.JOBS] = b"[ ]"
            board.texts[TEXT] = 'success "é"\n'
            poll = poller(tmp_path, board, additional=(TRAIN_RUN, TEXT, endpoints.JOBS))
            await poll.rounds(2)
            assert board.asked.count(endpoints.JOBS) == 2, "named twice, asked once a round"
            backend = LocalBackend(tmp_path)
            for name, body in board.bodies(TRAIN_RUN, TEXT, endpoints.JOBS).items():
                snapshot = next(one for one in poll.shipped if one.name == name)
                put_snapshot(backend, REF, snapshot)
                stored = read_all(backend, endpoint_key(REF, name), max_bytes=1000)
                assert stored == body
                ours = read_all(backend, snapshot_key(REF, name), max_bytes=1000)
                assert decode_snapshot(ours, source=name).name == name

    run(test)


def test_the_last_answer_stays_when_the_dashboard_fails(tmp_path: Path) -> None:
    """An error is no answer, and does not stop the others."""

    async def test() -> None:
        async with dashboard() as board:
            board.answers[TRAIN_RUN] = {"runs": 1}
            poll = poller(tmp_path, board, additional=("/api/missing", TRAIN_RUN))
            await poll.rounds(1)
            board.status[TRAIN_RUN] = 500
            await poll.rounds(1)
            await poll.snapshots.final_poll()
            assert poll.kept(TRAIN_RUN) == {"runs": 1}
            assert poll.kept("/api/missing") is None

    run(test)


def test_one_of_ours_is_asked_though_it_seems_unused() -> None:
    """Who names Serve's endpoint wants it; the table's entries come first, each once."""

    def names(endpoints: list[Endpoint]) -> list[str]:
        return [one.name for one in endpoints]

    plain = names(list(endpoints_for(Seen())))
    assert names(list(endpoints_for(Seen(), (endpoints.SERVE, endpoints.JOBS)))) == [
        *plain,
        endpoints.SERVE,
    ]
    in_use = names(list(endpoints_for(Seen(serve=True), (endpoints.SERVE,))))
    assert in_use.count(endpoints.SERVE) == 1


def test_paths_are_read_as_kuberay_reads_them() -> None:
    """A list with commas; blanks, empty parts and repetitions do not count."""
    assert request_paths(" /a?x=1, /b/ ,,/a?x=1,") == ("/a?x=1", "/b/")
    assert request_paths("") == ()


@pytest.mark.parametrize(
    "value",
    [
        "api/foo",
        "http://host/x",
        "/",
        "/a b",
        "/a#b",
        "/../x",
        "/a/./b",
        "/é",
        "/a\nb",
        f"/{'x' * 300}",
        ",".join(f"/{n}" for n in range(200)),
    ],
)
def test_what_is_no_path_is_refused(value: str) -> None:
    """At start, not at the first poll."""
    with pytest.raises(ValueError, match="must be"):
        request_paths(value)
