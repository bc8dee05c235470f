"""How fast the API answers from a large session, from the WSGI call to the last byte of JSON."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from statistics import median
from urllib.parse import urlencode

from historyserver.compiled.opener import CompiledSession, open_compiled
from historyserver.compiling.apart import compile_apart
from historyserver.reading.locate import locate
from historyserver.sessions import OpenSession
from tests.bench.figures import Bench, Figure, benchmark
from tests.harness.compiled_samples import LATER_MS, SESSIONS, kuberay_samples
from tests.historyserver.asking import Asker
from tests.historyserver.hand_made import REF, app_of
from tests.historyserver.web.server_process import start_server

TASKS = 100_000
ROUNDS = 40

_round = itertools.count()


@benchmark("serving")
def serve_large_session(bench: Bench) -> Iterator[Figure]:
    """Answers from 100,000 tasks, each made anew (no remembered body), on one thread."""
    backend = bench.bucket()
    source = locate(backend, bench.session(TASKS, layout="kuberay"), now_ms=LATER_MS * 2)
    path = bench.folder / "compiled.sqlite"
    compile_apart(backend, source, path, workers=2)
    session = open_compiled(path)
    opened = OpenSession(ref=REF, compiled=session, backend=backend, etag_base="bench")
    asker = Asker(app_of(backend, opened))
    job, filters = _filters(session)
    in_job = [("job_id", "=", job)]
    pages = [_tasks(), _tasks(detail=1), _tasks(in_job, detail=1), _tasks(page_token="row-18000")]
    summaries = [_query("tasks/summarize", in_job), _query("tasks/summarize", [])]
    summaries += [f"{path}&summary_by=lineage" for path in summaries]
    for name, paths in (
        ("page", pages),
        ("filter", [_tasks([*in_job, f], detail=1) for f in filters]),
        ("summary", summaries),
    ):
        times_ms = _times_ms(asker, paths)
        yield Figure(f"serving_100k_{name}_median_ms", median(times_ms), "ms")
        yield Figure(f"serving_100k_{name}_p99_ms", _p99(times_ms), "ms", at_most=20)
    whole = _times_ms(asker, [_tasks(in_job, detail=1, limit=10_000)], rounds=5)
    yield Figure("serving_100k_10000_rows_in_detail_ms", median(whole), "ms", at_most=500)
    yield Figure("serving_100k_not_modified_p99_ms", _p99(_polls_ms(asker)), "ms", at_most=2)
    timeline = _times_ms(asker, [f"/api/v0/tasks/timeline?job_id={job}"], rounds=1)
    yield Figure("serving_100k_timeline_s", timeline[0] / 1000, "s")
    session.close()


@benchmark("server_memory")
def rest(bench: Bench) -> Iterator[Figure]:
    """Memory of an idle server process, master and worker, that has a session open."""
    shutil.copytree(kuberay_samples() / "tree", bench.folder / "tree")
    server = start_server(bench.folder / "tree", bench.folder / "cache", bench.folder / "log")
    try:
        status, body = server.get(f"/s/ml/raycluster/v170/{SESSIONS['v170']}/api/v0/tasks")
        assert status == 200, body
        time.sleep(2.0)
        rss_mib = server.resident_bytes() / 2**20
        yield Figure("server_rss_idle_mib", rss_mib, "MiB", at_most=90)
    finally:
        server.stop()


def _filters(session: CompiledSession) -> tuple[str, list[tuple[str, str, str]]]:
    """The job, and filters that match much, little and nothing."""
    text = session.string
    name, node, worker, pid, job = (
        session.connection()
        .execute("SELECT name, node, worker, pid, job FROM tasks WHERE row = ?", (TASKS // 2,))
        .fetchone()
    )
    return text(job), [
        ("state", "=", "FAILED"),
        ("state", "!=", "FINISHED"),
        ("name", "=", text(name)),
        ("func_or_class_name", "=", text(name)),
        ("name", "=", "nosuch"),
        ("node_id", "=", text(node)),
        ("worker_id", "=", text(worker)),
        ("worker_pid", "=", str(pid)),
        ("worker_pid", "=", "1"),
        ("error_type", "=", "TASK_EXECUTION_EXCEPTION"),
    ]


def _query(path: str, filters: list[tuple[str, str, str]], **options: object) -> str:
    pairs = [(name, str(value)) for name, value in options.items()]
    for key, predicate, value in filters:
        pairs += [("filter_keys", key), ("filter_predicates", predicate), ("filter_values", value)]
    return f"/api/v0/{path}?{urlencode(pairs)}"


def _tasks(filters: list[tuple[str, str, str]] | None = None, **options: object) -> str:
    return _query("tasks", filters or [], **options)


def _times_ms(asker: Asker, paths: list[str], *, rounds: int = ROUNDS) -> list[float]:
    """Ask every path some times; an unknown argument that changes defeats the memory of bodies."""
    for path in paths:
        assert asker.session(path).status_code == 200, path
    times_ms = []
    for path in paths * rounds:
        started_s = time.perf_counter()
        response = asker.session(f"{path}&round={next(_round)}")
        size_bytes = len(response.get_data())
        times_ms.append((time.perf_counter() - started_s) * 1000)
        assert response.status_code == 200
        assert size_bytes > 100
    return times_ms


def _polls_ms(asker: Asker) -> list[float]:
    path = _tasks(detail=1, limit=10_000)
    etag = asker.session(path).headers["ETag"]
    times_ms = []
    for _ in range(ROUNDS * 5):
        started_s = time.perf_counter()
        response = asker.session(path, headers={"If-None-Match": etag})
        times_ms.append((time.perf_counter() - started_s) * 1000)
        assert response.status_code == 304
    return times_ms


def _p99(times_ms: list[float]) -> float:
    return sorted(times_ms)[int(len(times_ms) * 0.99)]
