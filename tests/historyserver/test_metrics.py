"""The server's metrics: enumerated reasons with bounded labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from historyserver.compiled.meta import Meta
from historyserver.compiling.cluster_events import LineSkip
from historyserver.folding.skips import SkipReason
from historyserver.metrics import ServerMetrics
from historyserver.reading.damage import DamageReason
from historyserver.sessions import BrokenReason, SessionBrokenError, SessionNotFoundError
from historyserver.sessions.watching import CompileOutcome
from storage.layout import SessionRef
from storage.local.backend import LocalBackend
from tests.historyserver.asking import Asker
from tests.historyserver.counted import values
from tests.historyserver.hand_made import HandMade, app_of, stored_sessions


@pytest.mark.parametrize("reason", BrokenReason)
def test_why_a_session_is_broken_is_counted(
    backend: LocalBackend, tmp_path: Path, reason: BrokenReason, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the reason that the reader gets too."""

    def broken(*_: object) -> None:
        raise SessionBrokenError(reason, "broken")

    monkeypatch.setattr("historyserver.sessions.preparing.locate", broken)
    metrics = ServerMetrics()
    sessions = stored_sessions(backend, tmp_path / "cache", watch=metrics)
    with pytest.raises(SessionBrokenError):
        sessions.open(SessionRef("ml", "gone", "session_2026-11-30_21-46-10_843035_1"))
    assert values(metrics, "sessions_broken_total") == {reason.value: 1}
    assert values(metrics, "sessions_opened_total") == {"broken": 1}


def test_a_session_that_is_not_there_is_no_broken_one(
    backend: LocalBackend, tmp_path: Path
) -> None:
    """It is an outcome of its own."""
    metrics = ServerMetrics()
    sessions = stored_sessions(backend, tmp_path / "cache", watch=metrics)
    with pytest.raises(SessionNotFoundError):
        sessions.open(SessionRef("ml", "gone", "session_2026-11-30_21-46-10_843035_1"))
    assert values(metrics, "sessions_broken_total") == {}
    assert values(metrics, "sessions_opened_total") == {"not_found": 1}


def test_what_compiles_leave_out_is_counted_by_reason() -> None:
    """Names of event types that are counted beside the reasons never become labels."""
    metrics = ServerMetrics()
    skipped = {SkipReason.NOT_JSON: 2, LineSkip.TOO_LONG: 1, "SOME_TYPE_OF_RAY_3": 9}
    meta = Meta(
        schema_version=1, fingerprint="f", namespace="n", cluster="c", session="s",
        skipped={str(name): count for name, count in skipped.items()},
        damage={DamageReason.TORN_LINE.value: 3},
    )  # fmt: skip
    metrics.compiled(CompileOutcome.MADE, 1.5, meta)
    metrics.compiled(CompileOutcome.BROKEN, 0.5, None)
    assert values(metrics, "compiles_total") == {"made": 1, "broken": 1}
    assert values(metrics, "compile_seconds_sum") == {"": 2}
    assert values(metrics, "compiled_skipped_total") == {
        "not_json": 2,
        "event_log_line_too_long": 1,
    }
    assert values(metrics, "compiled_damaged_total") == {"torn_line": 3}


def test_keys_that_the_list_passes_over_are_shown(
    backend: LocalBackend, hand_made: HandMade
) -> None:
    """As many as there are now, by reason."""
    metrics = ServerMetrics()
    app = app_of(backend, hand_made.opened(), metrics=metrics)
    backend.put("log/metadir/what/is_this", b"")
    assert values(metrics, "catalogue_skipped_keys") == {}
    assert Asker(app).get("/clusters").status_code == 200
    page = Asker(app).get("/metrics").get_data(as_text=True)
    assert 'rayhistory_server_catalogue_skipped_keys{reason="bad_marker"}' in page


def test_answers_are_counted_by_how_they_came(backend: LocalBackend, hand_made: HandMade) -> None:
    """Made once, then remembered, then not even sent."""
    metrics = ServerMetrics()
    ask = Asker(app_of(backend, hand_made.opened(), metrics=metrics))
    etag = ask.session("/timezone").headers["ETag"]
    ask.session("/timezone")
    ask.session("/timezone", headers={"If-None-Match": etag})
    assert values(metrics, "answers_total") == {"made": 1, "remembered": 1, "not_modified": 1}
