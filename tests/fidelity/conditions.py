"""What must hold besides the field itself before a rule excuses a difference. Pure.

A reason such as "the session has ended" explains one outcome, not any. Each function here says
which, from the row that the field is in and from what else either side answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.fidelity.comparing import Difference, Verdict
from tests.fidelity.evidence import TASKS, Evidence, actor, attempt, matching, rows, task

OPEN_TASKS = (
    "PENDING_ARGS_AVAIL",
    "PENDING_NODE_ASSIGNMENT",
    "PENDING_OBJ_STORE_MEM_AVAIL",
    "PENDING_ARGS_FETCH",
    "SUBMITTED_TO_WORKER",
    "RUNNING",
    "PENDING_ACTOR_TASK_ARGS_FETCH",
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
)
FINAL_TASKS = ("FINISHED", "FAILED")
FLUSH_MS = 5_000
"""Workers report every second, to GCS as to the collector: so old may an answer's news be."""

_ENDED = re.compile(
    r"The Ray session ended at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC while this"
    r" (?P<what>\w+) was (?P<state>\w+)(; whether it finished is not known)?\."
)
_SAME_OF_ATTEMPTS = (
    "name", "job_id", "actor_id", "type", "func_or_class_name", "parent_task_id", "language",
    "required_resources", "label_selector",
)  # fmt: skip
_WORKERS = "/api/v0/workers?detail=1&limit=10000"


def is_end_message(what: str, difference: Difference, _: Evidence) -> bool:
    """Our text says that the session's end closed this kind of thing."""
    match = _ENDED.fullmatch(str(difference.ours))
    return match is not None and match["what"] == what


def is_time(difference: Difference, _: Evidence) -> bool:
    """Our value is a time of this century in milliseconds."""
    return isinstance(difference.ours, int | float) and difference.ours > 946_684_800_000


def is_same_kind(difference: Difference, _: Evidence) -> bool:
    """Both values are of one kind, as a moving value's are, or one side lists less."""
    one, other = difference.live, difference.ours
    if difference.verdict is not Verdict.DIFFERS or one is None or other is None:
        return True
    numbers = [isinstance(value, int | float) and not isinstance(value, bool)
               for value in (one, other)]  # fmt: skip
    return all(numbers) or type(one) is type(other)


def was_closed(difference: Difference, evidence: Evidence) -> bool:
    """The live task was open, and ours was failed by its job's end or by the session's."""
    live, ours = difference.live_row, difference.our_row
    if live is None or ours is None or live["state"] not in OPEN_TASKS:
        return False
    full = task(evidence.ours, attempt(ours)) or ours
    return is_closed_row(full) and ours["state"] == full["state"]


def is_closed_row(row: Mapping[str, Any]) -> bool:
    """A task that the end failed, and that says so."""
    message, error_type = str(row.get("error_message")), row.get("error_type")
    if row["state"] != "FAILED":
        return False
    match = _ENDED.fullmatch(message)
    if match is not None:
        return error_type == "SESSION_ENDED" and match["state"] in OPEN_TASKS
    by_job = f"Job finishes ({row['job_id']}) as driver exits."
    return error_type == "WORKER_DIED" and message.startswith(by_job)


def moved_to_other_state(difference: Difference, evidence: Evidence) -> bool:
    """A row of a list by state is not in ours, or in ours only, for the end closed it."""
    row = difference.live_row or difference.our_row
    return row is not None and _moved(row, difference, evidence)


def _moved(row: Mapping[str, Any], difference: Difference, evidence: Evidence) -> bool:
    live, ours = (task(side, attempt(row)) for side in (evidence.live, evidence.ours))
    if live is None or ours is None or live["state"] not in OPEN_TASKS or not is_closed_row(ours):
        return False
    was, now = (bool(matching([each], difference.path)) for each in (live, ours))
    return was is not now


def went_on(difference: Difference, evidence: Evidence) -> bool:
    """The task was open in the live answer, or not there, and went on after it."""
    row = difference.live_row or difference.our_row
    return row is not None and "task_id" in row and _went_on(row, difference, evidence)


def _went_on(row: Mapping[str, Any], difference: Difference, evidence: Evidence) -> bool:
    live, ours = (task(side, attempt(row)) for side in (evidence.live, evidence.ours))
    since_ms = evidence.live[difference.path].taken_ms - FLUSH_MS
    if ours is None or since_ms <= 0:
        return False
    known = difference.live_row or live
    if known is None:
        return _begin_ms(ours) >= since_ms
    last_ms = max((event["created_ms"] for event in ours.get("events") or ()), default=0)
    return known["state"] in OPEN_TASKS and ours["state"] != known["state"] and last_ms >= since_ms


def emptied(difference: Difference, evidence: Evidence) -> bool:
    """One side's list is empty, and each row of the other one moved or went on."""
    found = rows(evidence.live, difference.path) or rows(evidence.ours, difference.path)
    value = difference.live if difference.verdict is Verdict.MISSING else difference.ours
    return value == [] and all(
        _moved(row, difference, evidence) or _went_on(row, difference, evidence) for row in found
    )


def _begin_ms(row: Mapping[str, Any]) -> float:
    times: list[float] = [event["created_ms"] for event in row.get("events") or ()]
    return min(times, default=0)


def idle_worker_exited(difference: Difference, evidence: Evidence) -> bool:
    """Ray says WORKER_DIED of a task of which we know that it had finished before."""
    row = difference.live_row or difference.our_row
    if row is None or "task_id" not in row:
        return False
    live, ours = (task(side, attempt(row)) for side in (evidence.live, evidence.ours))
    if live is None or ours is None or (live["state"], ours["state"]) != ("FAILED", "FINISHED"):
        return False
    times = [_state_ms(live, "FAILED"), _state_ms(ours, "FINISHED")]
    has_error = any(ours.get(key) for key in ("error_type", "error_message"))
    return (
        live["error_type"] == "WORKER_DIED"
        and not has_error
        and None not in times
        and times[0] >= times[1]  # type: ignore[operator]
    )


def _state_ms(row: Mapping[str, Any], state: str) -> float | None:
    found = [each["created_ms"] for each in row.get("events") or () if each["state"] == state]
    return found[0] if found else None


def is_forgotten_attempt(row: Mapping[str, Any], evidence: Evidence) -> bool:
    """A later creation attempt of an actor that Ray itself says was restarted so often."""
    number = row.get("attempt_number", 0)
    of = actor(evidence.live, row.get("actor_id"))
    first = task(evidence.live, (row.get("task_id"), 0))
    if number < 1 or of is None or first is None or task(evidence.live, attempt(row)):
        return False
    restarts = int(of["num_restarts"])
    if row["type"] != "ACTOR_CREATION_TASK" or number > restarts:
        return False
    same = all(row[key] == first[key] for key in _SAME_OF_ATTEMPTS if key in row)
    is_last = number == restarts
    placed = not is_last or not of["pid"] or _place(row) == (of["node_id"], of["pid"])
    return same and placed and row["state"] in FINAL_TASKS


def _place(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row.get("node_id"), row.get("worker_pid")


def was_forgotten(difference: Difference, evidence: Evidence) -> bool:
    """The row is such an attempt, and belongs into this answer."""
    row = difference.our_row
    full = row and task(evidence.ours, attempt(row))
    return bool(full and is_forgotten_attempt(full, evidence) and matching([full], difference.path))


def has_no_definition(difference: Difference, evidence: Evidence) -> bool:
    """The row is a task whose definition was lost, that ran where Ray says its actor lives."""
    row = difference.our_row
    if row is not None and "ph" in row:
        row = row["args"]
    full = row and task(evidence.ours, attempt(row))
    if not full or task(evidence.live, attempt(full)) or full["language"] or full["parent_task_id"]:
        return False
    of = actor(evidence.live, full["actor_id"])
    runs = any(event["state"] == "RUNNING" for event in full["events"])
    return of is not None and runs and of["pid"] == full["worker_pid"]


def failed_with_its_worker(difference: Difference, evidence: Evidence) -> bool:
    """Ray failed it when its worker exited, of which no event tells; ours at its job's end."""
    live, ours = difference.live_row, difference.our_row
    full = ours and task(evidence.ours, attempt(ours))
    known = live and task(evidence.live, attempt(live))
    if not full or not known or not is_closed_row(full) or full["error_type"] != "WORKER_DIED":
        return False
    by_worker = f"Worker running the task ({known['worker_id']}) died"
    is_so = known["state"] == "FAILED" and str(known["error_message"]).startswith(by_worker)
    return is_so and bool(known["end_time_ms"] <= full["end_time_ms"])


def is_pending_result(difference: Difference, _: Evidence) -> bool:
    """The reference to the result of a call that still runs, as long polls have them."""
    row = difference.live_row or difference.our_row
    return bool(row) and (row["object_size"], row["task_status"]) == (-1, "SUBMITTED_TO_WORKER")


def was_forgotten_in_timeline(difference: Difference, evidence: Evidence) -> bool:
    """The event is of such an attempt, or names a worker that ran nothing else."""
    event = difference.our_row
    if event is None:
        return False
    if event["ph"] != "M":
        full = task(evidence.ours, attempt(event["args"]))
        return full is not None and is_forgotten_attempt(full, evidence)
    worker = str(event["args"]["name"]).partition(":")[2]
    ours = rows(evidence.ours, TASKS)
    return any(row["worker_id"] == worker and is_forgotten_attempt(row, evidence) for row in ours)


def placed_as_its_actor(difference: Difference, evidence: Evidence) -> bool:
    """Our node and worker are a pair that Ray's own list of workers has.

    Of the last attempt they are where Ray says that the actor lived.
    """
    ours = difference.our_row
    known = {row["worker_id"]: row for row in rows(evidence.live, _WORKERS)}
    worker = known.get(ours["worker_id"]) if ours else None
    of = actor(evidence.live, ours["actor_id"]) if ours else None
    if worker is None or of is None or ours["type"] != "ACTOR_CREATION_TASK":
        return False
    is_last = ours["attempt_number"] == int(of["num_restarts"])
    lived = (of["node_id"], of["pid"])
    there = (ours["node_id"], worker["pid"])
    return bool(worker["node_id"] == ours["node_id"] and (not is_last or there == lived))


def follows_from_rows(difference: Difference, evidence: Evidence) -> bool:
    """A list's number differs by as much as the rows differ that the request is about."""
    resource = difference.path.split("?")[0].split("/")[3]
    full = f"/api/v0/{resource}?detail=1&limit=10000"
    counts = [len(matching(rows(side, full), difference.path))
              for side in (evidence.live, evidence.ours)]  # fmt: skip
    return (
        isinstance(difference.ours, int)
        and isinstance(difference.live, int)
        and difference.ours - difference.live == counts[1] - counts[0]
    )


def is_own_id(difference: Difference, _: Evidence) -> bool:
    """Our value is the id of the actor whose row it is in."""
    return bool(difference.our_row and difference.ours == difference.our_row["actor_id"])
