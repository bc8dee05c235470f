"""Which differences of logs are excused, and which are not."""

from __future__ import annotations

from typing import Any

from tests.fidelity.asking import Answer
from tests.fidelity.comparing import compare
from tests.fidelity.made_pairs import TAKEN_MS, captured, task, tasks
from tests.fidelity.rules import (
    EMPTY_LOG,
    LATER,
    NEVER_RAN,
    NO_TRAIN,
    REWRITTEN,
    RULES,
    TASK_LOG,
)

FILE = "/api/v0/logs/file?node_id=n&filename="
OF_TASK = f"/api/v0/logs/file?task_id={'a' * 48}&suffix=out&attempt_number=0"


def logs(path: str, live: Any, ours: Any, *, status: tuple[int, int]) -> set[str | None]:
    """The reasons for the difference of one log, beside a crashed task's row."""
    name = "/api/v0/logs/file of task" if "task_id" in path else "/api/v0/logs/file"
    pairs = [captured(tasks(task(name="crashes", func_or_class_name="crashes"))) for _ in range(2)]
    for answers, code, body in zip(pairs, status, (live, ours), strict=True):
        answers.append(Answer(name, path, code, "text/plain", body, TAKEN_MS))
    return {each.reason for one in compare(pairs[0], pairs[1], RULES) for each in one.differences}


def test_only_rays_own_logs_may_come_after_the_live_answer() -> None:
    """An empty log is one; text where Ray had none is explained of its own processes only."""
    status = (500, 200)
    assert logs(f"{FILE}worker-1.out", "500 Internal", "", status=status) == {EMPTY_LOG}
    assert logs(f"{FILE}gcs_server.err", "500 Internal", "later", status=status) == {LATER}
    assert None in logs(f"{FILE}worker-1.out", "500 Internal", "later", status=status)


def test_only_the_state_dump_is_rewritten() -> None:
    """Another text of any other file is wrong."""
    assert logs(f"{FILE}debug_state.txt", "a", "b", status=(200, 200)) == {REWRITTEN}
    assert logs(f"{FILE}worker-1.out", "a", "b", status=(200, 200)) == {None}


def test_refused_log_of_a_task_is_its_workers() -> None:
    """The text begins with the job and names the task; another text is not explained."""
    right = ":job_id:02000000\n:task_name:crashes\nout\n"
    assert logs(OF_TASK, "log_info = None", right, status=(500, 200)) == {TASK_LOG}
    for wrong in ("out\n", right.replace("02", "03"), right.replace("crashes", "other")):
        assert None in logs(OF_TASK, "log_info = None", wrong, status=(500, 200))


def test_log_that_never_was() -> None:
    """We may say so only if Ray knows no worker either."""
    ours = {"result": False, "msg": "the task never ran on a worker"}
    assert logs(OF_TASK, "due to missing node info.", ours, status=(500, 400)) == {NEVER_RAN}
    assert None in logs(OF_TASK, "500 Internal", ours, status=(500, 400))
    assert None in logs(OF_TASK, "text", ours, status=(200, 400))


def answers(endpoint: str, live: Any, ours: Any, *, status: tuple[int, int]) -> set[str | None]:
    """The reasons for the difference of one answer."""
    pair = [
        [Answer(endpoint, endpoint, code, "application/json", body, TAKEN_MS)]
        for code, body in zip(status, (live, ours), strict=True)
    ]
    return {each.reason for one in compare(pair[0], pair[1], RULES) for each in one.differences}


def test_only_events_after_the_live_answer_may_be_more() -> None:
    """An older one that Ray does not have is made up."""

    def events(*times_s: int) -> dict[str, Any]:
        group = [{"eventId": f"{time}", "timestamp": f"{time}"} for time in times_s]
        return {"data": {"events": {"global": group}}}

    now_s = TAKEN_MS // 1000
    live = events(now_s - 60)
    later = events(now_s - 60, now_s + 5)
    assert answers("/events", live, later, status=(200, 200)) == {LATER}
    earlier = events(now_s - 60, now_s - 30)
    assert answers("/events", live, earlier, status=(200, 200)) == {None}


def test_no_runs_of_train_are_told_only_where_ray_has_none() -> None:
    """A run that Ray does not know, or a list that is lost, is wrong."""
    runs = "/api/train/v2/runs/v1"
    status = (500, 200)
    assert answers(runs, "not available", {"train_runs": []}, status=status) == {NO_TRAIN}
    made_up = {"train_runs": [{"id": "r"}]}
    assert None in answers(runs, "not available", made_up, status=status)
    lost: dict[str, Any] = {"train_runs": []}
    assert None in answers(runs, made_up, lost, status=(200, 200))
