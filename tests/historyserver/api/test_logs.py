"""`/api/v0/logs`: names, text by file, task, actor, process and submission, bad names."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from historyserver.folding.records import LogInfo
from historyserver.reading.source import LogPart
from storage.backend import Backend
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import HEAD, WORKER, WORKER_NODE, HandMade, app_of

TASK = "1" * 48
JOB = "01000000"
FILE = f"worker-{WORKER}-{JOB}-345.out"
LIST = "/api/v0/logs"
TEXT = "/api/v0/logs/file"


def asker(backend: Backend, made: HandMade) -> Asker:
    """A client of an app with that session."""
    return Asker(app_of(backend, made.opened()))


GROUPS = {
    "worker_out": [FILE],
    "worker_err": [FILE.replace(".out", ".err")],
    "core_worker": ["python-core-worker-1_2.log"],
    "driver": ["python-core-driver-1_2.log"],
    "raylet": ["raylet.out", "raylet.out.1"],
    "gcs_server": ["gcs_server.out"],
    "autoscaler": ["monitor.log"],
    "agent": ["dashboard_agent.log"],
    "dashboard": ["dashboard.log"],
    "internal": ["dashboard_JobHead.log", "events/", "log_monitor.log", "serve/", FILE + ".1"],
}
"""The groups of Ray 2.55's log manager, the first rule that fits."""


def test_names_come_in_ray_s_groups_and_folders_end_with_a_slash(
    backend: Backend, hand_made: HandMade
) -> None:
    """Folders are listed with what is in them below."""
    for name in sorted(name for names in GROUPS.values() for name in names):
        hand_made.log(
            {"events/": "events/event_GCS.log", "serve/": "serve/a/b.log"}.get(name, name), b"x\n"
        )
    found = asker(backend, hand_made).json(f"{LIST}?node_id={HEAD}")
    assert found["result"] is True
    assert found["data"]["result"] == GROUPS


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*", ["a.log", "serve/"]),
        ("serve/*", ["serve/b.log", "serve/deep/"]),
        ("**", ["serve/", "serve/deep/"]),
        ("**/*.log", ["a.log", "serve/b.log", "serve/deep/c.log"]),
        ("serve/**/c.log", ["serve/deep/c.log"]),
        ("*/[bc].log", ["serve/b.log"]),
        ("?.log", ["a.log"]),
        ("nothing", []),
        ("serve/", ["serve/"]),
    ],
)
def test_globs_match_as_paths_do(
    backend: Backend, hand_made: HandMade, glob: str, names: list[str]
) -> None:
    """`*` stays in one folder, `**` does not."""
    for name in ("a.log", "serve/b.log", "serve/deep/c.log"):
        hand_made.log(name, b"x")
    ask = asker(backend, hand_made)
    groups = ask.json(LIST, query_string={"node_ip": "10.0.0.1", "glob": glob})["data"]["result"]
    assert sorted(name for group in groups.values() for name in group) == names


@pytest.mark.parametrize("glob", ["../*", "/etc/*", "a\0", "x" * 2000, "serve/../../*"])
def test_globs_that_leave_the_folder_are_refused(
    backend: Backend, hand_made: HandMade, glob: str
) -> None:
    """A clear error, and nothing is listed."""
    ask = asker(backend, hand_made.log("a.log", b"x"))
    refused(ask.session(LIST, query_string={"node_id": HEAD, "glob": glob}), "bad_request")


def test_a_glob_of_many_stars_takes_no_time(backend: Backend, hand_made: HandMade) -> None:
    """No pattern makes the server think for long."""
    ask = asker(backend, hand_made.log("/".join("a" * 60) + ".log", b"x"))
    started_s = time.thread_time()
    ask.json(LIST, query_string={"node_id": HEAD, "glob": "**/*a*a*a*a*a*b/" * 20 + "x"})
    assert time.thread_time() - started_s < 1


def test_missing_and_unknown_nodes_are_told_apart(backend: Backend, hand_made: HandMade) -> None:
    """Live Ray answers the first with this text, and fails at the second."""
    ask = asker(backend, hand_made.log("a.log", b"x"))
    assert "Both node id and node ip are not provided" in refused(ask.session(LIST), "bad_request")
    refused(ask.session(f"{LIST}?node_id={'d' * 56}"), "not_found")
    refused(ask.session(f"{LIST}?node_ip=10.9.9.9"), "not_found")
    refused(ask.session(f"{LIST}?node_id={HEAD}&node_ip=10.0.0.1"), "bad_request")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("2", b"3\n4\n"),
        ("-1", b"0\n1\n2\n3\n4\n"),
        ("", b"0\n1\n2\n3\n4\n"),
        ("0", b"0\n1\n2\n3\n4\n"),
    ],
)
def test_a_file_s_last_lines_are_sent_as_plain_text(
    backend: Backend, hand_made: HandMade, lines: str, expected: bytes
) -> None:
    """Without `lines`, and with 0, the last thousand as in Ray."""
    ask = asker(backend, hand_made.log("a b ü.log", b"0\n1\n2\n3\n4\n"))
    query = {"node_id": HEAD, "filename": "a b ü.log", "lines": lines}
    response = ask.session(TEXT, query_string=query)
    assert response.data == expected
    assert response.content_type.startswith("text/plain")
    assert response.headers["Content-Disposition"] == 'attachment; filename="file.txt"'


def test_an_empty_log_is_an_empty_answer(backend: Backend, hand_made: HandMade) -> None:
    """Ray 2.55 fails here with 500; its UI wants 200 and nothing."""
    ask = asker(backend, hand_made.log("empty.log", b""))
    response = ask.session(f"{TEXT}?node_id={HEAD}&filename=empty.log&lines=100")
    assert (response.status_code, response.data) == (200, b"")


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "a\0b",
        "a//b",
        "./a",
        "..%2fsecret",
        "a/",
        "x" * 5000,
    ],
)
def test_names_that_leave_the_folder_are_refused(
    backend: Backend, hand_made: HandMade, name: str
) -> None:
    """Nothing outside of the session's logs can be named; `..%2f` is just no file."""
    backend.put("secret", b"do not show")
    ask = asker(backend, hand_made.log("a.log", b"x"))
    response = ask.session(TEXT, query_string={"node_id": HEAD, "filename": name})
    refused(response, "not_found" if "%" in name else "bad_request")


def test_names_encoded_in_the_address_are_refused_too(
    backend: Backend, hand_made: HandMade
) -> None:
    """`%2f` and `%00` are decoded once, then checked."""
    ask = asker(backend, hand_made.log("a.log", b"x"))
    for name in ("..%2f..%2fsecret", "%2e%2e/secret", "a%00b", "%2fetc%2fpasswd"):
        refused(ask.session(f"{TEXT}?node_id={HEAD}&filename={name}"), "bad_request")


def test_a_path_as_ray_reports_it_is_found(backend: Backend, hand_made: HandMade) -> None:
    """Task details carry absolute paths of the session's folder on its node."""
    ask = asker(backend, hand_made.log("serve/x.log", b"hello\n"))
    name = f"/tmp/ray/{hand_made.ref.session}/logs/serve/x.log"
    response = ask.session(TEXT, query_string={"node_id": HEAD, "filename": name})
    assert response.data == b"hello\n"


def test_a_missing_file_is_a_clear_error(backend: Backend, hand_made: HandMade) -> None:
    """Not 404: Ray's proxy would then answer for the local cluster."""
    ask = asker(backend, hand_made.log("a.log", b"x"))
    message = refused(ask.session(f"{TEXT}?node_id={HEAD}&filename=nope.log"), "not_found")
    assert "nope.log" in message


@pytest.mark.parametrize(
    "query",
    ["", f"node_id={HEAD}", "filename=a.log", "task_id=zz", "actor_id=zz", "pid=abc", f"pid=1&node_id={HEAD}",
     "filename=a.log&node_ip=1.2.3.4", f"node_id={HEAD}&filename=a.log&lines=x",
     f"node_id={HEAD}&filename=a.log&lines=-5", f"node_id={HEAD}&filename=a.log&suffix=exe",
     f"task_id={TASK}&attempt_number=99999999999999999999", "submission_id=../x"],
)  # fmt: skip
def test_queries_that_name_no_log_are_clear_errors(
    backend: Backend, hand_made: HandMade, query: str
) -> None:
    """400 with a text, never a trace or a 500."""
    ask = asker(backend, hand_made.log("a.log", b"x"))
    response = ask.session(f"{TEXT}?{query}")
    assert response.status_code == 400
    assert response.get_json()["msg"]


def test_a_task_s_log_is_its_range_of_the_worker_s_file(
    backend: Backend, hand_made: HandMade
) -> None:
    """Not a byte of the task before or after."""
    info = LogInfo(f"/tmp/ray/session_x/logs/{FILE}", "", 6, 16)
    made = hand_made.log(FILE, b"other\nmine\nmine\nnext\n").task(TASK, log_info=info)
    response = asker(backend, made).session(f"{TEXT}?task_id={TASK}&suffix=out&lines=-1")
    assert response.data == b"mine\nmine\n"
    assert response.headers["X-Ray-History-Log-Range"] == "exact"


def test_a_task_that_printed_nothing_has_an_empty_log(
    backend: Backend, hand_made: HandMade
) -> None:
    """Start and end are the same."""
    made = hand_made.log(FILE, b"other\n").task(TASK, log_info=LogInfo(FILE, "", 6, 6))
    response = asker(backend, made).session(f"{TEXT}?task_id={TASK}&suffix=out")
    assert (response.status_code, response.data) == (200, b"")


@pytest.mark.parametrize(
    ("info", "text", "kind"),
    [
        (None, b"one\ntwo\n", "whole-worker-file"),
        (LogInfo(), b"one\ntwo\n", "whole-worker-file"),
        (LogInfo(FILE, "", -1, 4), b"one\n", "start-unknown"),
        (LogInfo(FILE, "", 4, -1), b"two\n", "end-unknown"),
        (LogInfo(FILE, "", -1, -1), b"one\ntwo\n", "whole-worker-file"),
        (LogInfo("gone.out", "", 0, 4), b"one\ntwo\n", "whole-worker-file"),
        (LogInfo(FILE, "", 4, 4000), b"two\n", "exact"),
    ],
)
def test_an_unknown_range_gives_what_is_known_and_says_so(
    backend: Backend, hand_made: HandMade, info: LogInfo | None, text: bytes, kind: str
) -> None:
    """Ray 2.55 loses file and start of short tasks; KubeRay's server answers 404 then."""
    made = hand_made.log(FILE, b"one\ntwo\n").task(TASK, log_info=info)
    response = asker(backend, made).session(f"{TEXT}?task_id={TASK}&suffix=out")
    assert response.data == text
    assert response.headers["X-Ray-History-Log-Range"] == kind


def test_an_attempt_that_never_ran_says_so(backend: Backend, hand_made: HandMade) -> None:
    """And an attempt that is not there is another message."""
    ask = asker(backend, hand_made.task(TASK, worker="", node=""))
    assert "never ran" in refused(ask.session(f"{TEXT}?task_id={TASK}"), "not_found")
    message = refused(ask.session(f"{TEXT}?task_id={TASK}&attempt_number=3"), "not_found")
    assert "no task" in message


def test_an_actor_s_log_is_found_on_any_node(backend: Backend, hand_made: HandMade) -> None:
    """KubeRay may have filed an old log under the node id that came after a restart."""
    actor = "ab" * 16
    made = hand_made.log(FILE, b"hello\n", node=WORKER_NODE).actor(actor, node=HEAD)
    ask = asker(backend, made)
    assert ask.session(f"{TEXT}?actor_id={actor}&suffix=out").data == b"hello\n"
    refused(ask.session(f"{TEXT}?actor_id={actor}&suffix=err"), "not_found")


def test_a_process_s_log_is_found_by_pid(backend: Backend, hand_made: HandMade) -> None:
    """345 is not 1345, and core worker logs are not meant."""
    hand_made.log(FILE, b"345\n").log(FILE.replace("-345", "-1345"), b"1345\n")
    ask = asker(backend, hand_made.log("python-core-worker-x_345.log", b"core\n"))
    assert ask.session(f"{TEXT}?pid=345&node_ip=10.0.0.1").data == b"345\n"
    assert ask.session(f"{TEXT}?pid=1345&node_id={HEAD}").data == b"1345\n"
    refused(ask.session(f"{TEXT}?pid=45&node_id={HEAD}"), "not_found")


def test_a_submission_s_driver_log_comes_as_text_and_as_json(
    backend: Backend, hand_made: HandMade
) -> None:
    """Ray 2.55 fails at `submission_id` alone; `ray job logs` wants JSON."""
    made = hand_made.log("job-driver-job-1.log", b"driver \xff line\n", node=WORKER_NODE)
    ask = asker(backend, made)
    assert ask.session(f"{TEXT}?submission_id=job-1").data == b"driver \xff line\n"
    assert ask.json("/api/jobs/job-1/logs") == {"logs": "driver \N{REPLACEMENT CHARACTER} line\n"}
    refused(ask.session("/api/jobs/job/logs"), "not_found")


def test_colours_are_filtered_when_asked(backend: Backend, hand_made: HandMade) -> None:
    """The UI always asks; a download may keep them."""
    ask = asker(backend, hand_made.log("a.log", b"\x1b[31mred\x1b[0m\n"))
    path = f"{TEXT}?node_id={HEAD}&filename=a.log"
    assert ask.session(path).data == b"\x1b[31mred\x1b[0m\n"
    assert ask.session(f"{path}&filter_ansi_code=true").data == b"red\n"


def test_a_download_s_name_cannot_break_the_header(backend: Backend, hand_made: HandMade) -> None:
    """Quotes, line ends and paths are taken out."""
    ask = asker(backend, hand_made.log("a.log", b"x"))
    query = {
        "node_id": HEAD,
        "filename": "a.log",
        "download_filename": 'x"\r\nSet-Cookie: a=b; ü/é.txt',
    }
    header = ask.session(TEXT, query_string=query).headers["Content-Disposition"]
    assert header.startswith('attachment; filename="x___Set-Cookie: a=b; ___.txt"; filename*=UTF-8')
    assert "\n" not in header


def test_parts_of_a_running_log_are_joined_and_a_gap_is_told(
    backend: Backend, hand_made: HandMade
) -> None:
    """Bytes that were never stored are counted in a header."""
    backend.put("x/one", b"12345")
    backend.put("x/two", b"__abc__")
    parts = [LogPart("x/one", 0, 5), LogPart("x/two", 8, 3, object_start=2, object_length=3)]
    ask = asker(backend, hand_made.log_parts("a.log", parts, 11))
    response = ask.session(f"{TEXT}?node_id={HEAD}&filename=a.log&lines=-1")
    assert response.data == b"12345abc"
    assert response.headers["X-Ray-History-Log-Missing-Bytes"] == "3"


@pytest.mark.parametrize(
    ("state", "code", "status"),
    [("running", "session_preparing", 503), ("ended", "not_found", 400)],
)
def test_a_lost_object_is_an_error_and_not_a_cut_answer(
    backend: Backend, hand_made: HandMade, state: str, code: str, status: int
) -> None:
    """While a session runs its objects move, and asking again helps; later nothing does."""
    hand_made.log_parts("a.log", [LogPart("x/gone", 0, 5)], 5)
    ask = Asker(app_of(backend, hand_made.opened(state=state)))
    response = ask.session(f"{TEXT}?node_id={HEAD}&filename=a.log")
    refused(response, code, status=status)


def test_the_tail_of_a_gigabyte_is_quick_and_small(
    backend: Backend, hand_made: HandMade, tmp_path: Path
) -> None:
    """A log of 1 GiB: the last lines in well under 100 ms of work, memory bounded."""

    line = b"x" * 127 + b"\n"
    size_bytes = 1 << 30
    hand_made.log("big.log", line)
    file = next((tmp_path / "store").rglob("big.log"))
    with file.open("r+b") as stored:  # a sparse file: the disk need not hold a gigabyte
        stored.seek(size_bytes - 2000 * len(line))
        stored.write(line * 2000)
    key = file.relative_to(tmp_path / "store").as_posix()
    hand_made.log_parts("big.log", [LogPart(key, 0, size_bytes)], size_bytes)
    ask = asker(backend, hand_made)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started_s = time.thread_time()
    response = ask.session(
        f"{TEXT}?node_id={HEAD}&filename=big.log&lines=1000&filter_ansi_code=true"
    )
    seconds = time.thread_time() - started_s
    assert response.data == line * 1000
    assert seconds < 0.1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 40_000


def test_following_a_log_is_refused_with_the_way_to_the_stored_one(
    backend: Backend, hand_made: HandMade
) -> None:
    """A stored session does not grow."""
    ask = asker(backend, hand_made)
    assert TEXT in refused(ask.session("/api/v0/logs/stream?node_id=x"), "not_kept")
    assert "logs" in refused(ask.session("/api/jobs/x/logs/tail"), "not_kept")
