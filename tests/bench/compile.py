"""How fast a large session is compiled and opened, and what memory that takes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from historyserver.compiled.cache import CompiledCache
from historyserver.compiling.apart import compile_apart
from historyserver.reading.locate import locate
from tests.bench.figures import BUILD, Bench, Figure, benchmark
from tests.bench.memory import peak_of_children
from tests.harness.compiled_samples import LATER_MS, kuberay_source

TASKS = 100_000
ROUNDS = 3

FIRST_PAGE = """
import sys, time
started = time.perf_counter()
from pathlib import Path
from historyserver.compiled.opener import open_compiled
from historyserver.compiled.details import Details
imported = time.perf_counter()
session = open_compiled(Path(sys.argv[1]))
rows = session.connection().execute("SELECT * FROM tasks ORDER BY row LIMIT 100").fetchall()
details = Details(session)
page = [(*(session.string(value) for value in row[3:9]), details.get(row[23])) for row in rows]
assert len(page) == 100
print(time.perf_counter() - started, time.perf_counter() - imported)
"""


def keep_bytecode() -> None:
    """Let started processes find bytecode, as an installed image has it; some shells forbid it."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(BUILD / "pycache"))


@benchmark("compile")
def compile_large_sessions(bench: Bench) -> Iterator[Figure]:
    """Compiling 100,000 tasks (500,000 events, 4 nodes) in a process of its own, reading included."""
    keep_bytecode()
    for layout in ("kuberay", "ours"):
        backend = bench.bucket()
        source = locate(backend, bench.session(TASKS, layout=layout), now_ms=LATER_MS * 2)
        seconds = []
        path = bench.folder / f"{layout}.sqlite"
        for _ in range(ROUNDS):
            started_s = time.perf_counter()
            compile_apart(backend, source, path, workers=2)
            seconds.append(time.perf_counter() - started_s)
        with peak_of_children() as peak:  # a round of its own: watching slows what is watched
            compile_apart(backend, source, path, workers=2)
        yield Figure(f"compile_100k_{layout}_s", median(seconds), "s", at_most=4.0)
        yield Figure(f"compile_100k_{layout}_peak_mib", peak.mib, "MiB", at_most=600)
        yield Figure(f"compile_100k_{layout}_file_mib", path.stat().st_size / 2**20, "MiB")


@benchmark("compile_small")
def compile_small_session(bench: Bench) -> Iterator[Figure]:
    """Compiling a session of 15 tasks in a process of its own, its start included."""
    keep_bytecode()
    backend, source = kuberay_source("v170")
    seconds = []
    for number in range(5):
        started_s = time.perf_counter()
        compile_apart(backend, source, bench.folder / f"{number}.sqlite", workers=2)
        seconds.append(time.perf_counter() - started_s)
    yield Figure("compile_small_s", median(seconds), "s", at_most=0.3)


@benchmark("open")
def open_compiled_session(bench: Bench) -> Iterator[Figure]:
    """From a compiled file of 100,000 tasks to its first page of 100, in a fresh process."""
    backend = bench.bucket()
    source = locate(backend, bench.session(TASKS, layout="kuberay"), now_ms=LATER_MS * 2)
    cache = CompiledCache(bench.folder / "cache", max_bytes=2**40)
    with cache.making("0-1-f") as unfinished:
        compile_apart(backend, source, unfinished, workers=2)
        cache.add("0-1-f", unfinished).close()
    (path,) = (bench.folder / "cache").glob("*.sqlite")
    whole, without_imports = zip(*(_first_page(path) for _ in range(5)), strict=True)
    yield Figure("open_100k_first_page_s", median(whole), "s", at_most=0.3)
    yield Figure("open_100k_first_page_without_imports_ms", median(without_imports) * 1000, "ms")
    started_s = time.perf_counter()
    found = cache.open("0-1-f")
    yield Figure(
        "open_100k_from_cache_checked_s", time.perf_counter() - started_s, "s", at_most=0.3
    )
    assert found is not None
    found.close()


def _first_page(path: Path) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PAGE, str(path)], check=True, capture_output=True, text=True
    )
    whole, without_imports = map(float, done.stdout.split())
    return whole, without_imports
