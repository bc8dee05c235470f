"""What must hold before a rule excuses a log's difference: see `conditions`. Pure."""

from __future__ import annotations

import re
from typing import Any

from tests.fidelity.comparing import Difference
from tests.fidelity.evidence import Evidence, actor, query, task

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def is_worker_log(difference: Difference, evidence: Evidence) -> bool:
    """Where Ray refuses a task's log, ours is that of its worker, or of its actor's last one."""
    row = task(evidence.ours, (query(difference.path)["task_id"], _asked_attempt(difference)))
    text: Any = evidence.ours[difference.path].body
    if row is None or not row["worker_id"] or not isinstance(text, str):
        return False
    of = actor(evidence.live, row["actor_id"])
    suffix = query(difference.path)["suffix"]
    path = f"/api/v0/logs/file?actor_id={row['actor_id']}&suffix={suffix}&lines=50000"
    live = evidence.live.get(path)
    if of is not None and live is not None and row["worker_pid"] == of["pid"]:
        plain = _ANSI.sub("", str(live.body))
        return bool(text.startswith(plain))
    mark = (
        f":actor_name:{of['class_name']}\n" if of else f":task_name:{row['func_or_class_name']}\n"
    )
    return text.startswith(f":job_id:{row['job_id']}\n") and mark in text


def _asked_attempt(difference: Difference) -> int:
    return int(query(difference.path).get("attempt_number", 0))


def live_failed(difference: Difference, evidence: Evidence) -> bool:
    """Ray answered with an error, so that ours is all there is."""
    return evidence.live[difference.path].status == 500


def is_empty(difference: Difference, evidence: Evidence) -> bool:
    """Our whole answer is an empty log."""
    return bool(evidence.ours[difference.path].body == "")


def says_never_ran(difference: Difference, evidence: Evidence) -> bool:
    """Ray knows no worker of it, and we say that there was none."""
    live, ours = evidence.live[difference.path], evidence.ours[difference.path]
    has_none = re.search("missing node info|not scheduled yet", str(live.body))
    says_so = isinstance(ours.body, dict) and "never" in str(ours.body.get("msg"))
    return live.status == 500 and ours.status == 400 and has_none is not None and says_so


def is_folder(difference: Difference, _: Evidence) -> bool:
    """A name in a listing of logs that is a folder's."""
    return str(difference.live).endswith("/")


def was_written_after_the_answer(difference: Difference, evidence: Evidence) -> bool:
    """An event of Ray's own event log that is younger than the live answer (whole seconds)."""
    row = difference.our_row
    if not isinstance(row, dict) or not str(row.get("timestamp", "")).isdigit():
        return False
    return (int(row["timestamp"]) + 1) * 1000 > evidence.live[difference.path].taken_ms
