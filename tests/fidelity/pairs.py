"""A pair: what the live dashboard answered, and the storage that the collectors left.

A pair is kept in `build/fidelity/NAME`, so that the comparison can be repeated without Ray:
`live.jsonl`, `tree/` (the local backend's folder) and `pair.json` (which session it is).
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from demo.server import history_server
from tests.fidelity.asking import Answer, ask, read, repeat
from tests.fidelity.comparing import Compared, compare
from tests.fidelity.rules import RULES
from tests.harness.cluster import CLUSTER, REPOSITORY, RealCluster
from tests.harness.starting import started

KEPT = REPOSITORY / "build" / "fidelity"
RUNTIME_ENV = '{"env_vars": {"STAGE": "demo"}}'


@dataclass(frozen=True, slots=True)
class Pair:
    """A kept pair."""

    folder: Path

    @property
    def live(self) -> Path:
        """The live answers."""
        return self.folder / "live.jsonl"

    @property
    def tree(self) -> Path:
        """The storage."""
        return self.folder / "tree"

    @property
    def session_path(self) -> str:
        """The path of the session's link."""
        name = json.loads((self.folder / "pair.json").read_text())
        return f"/s/{name['namespace']}/{name['kind']}/{name['name']}/{name['session']}"

    def process_logs(self) -> list[Path]:
        """What a failing test shows."""
        return sorted((self.folder / "logs").glob("*.log"))


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a session is made."""

    jobs: Mapping[str, Path]  # scripts by their submission id, run one after the other
    workers: int = 0


JOBS = Path(__file__).parent / "jobs"
LIBRARY_JOB = {"library-job": JOBS / "library_job.py"}
RECIPES = {
    "small": Recipe({"demo-job": REPOSITORY / "demo" / "sample_job.py"}),
    "libraries": Recipe(LIBRARY_JOB),
    "rich": Recipe({"demo-job": JOBS / "rich_job.py"} | LIBRARY_JOB, workers=1),
}


def make(recipe: Recipe, folder: Path) -> Pair:
    """Run the session, capture, stop; `folder` is emptied first."""
    if LIBRARY_JOB.items() <= recipe.jobs.items():
        _check_libraries()
    cluster = started(lambda: _start(recipe, folder))
    try:
        for submission_id, script in recipe.jobs.items():
            _run(cluster, script, submission_id)
        cluster.capture(folder / "live.jsonl")
        session = cluster.session
        cluster.stop()
    finally:
        cluster.close()
    cluster.discard_ray_files()
    identity = {
        "namespace": CLUSTER.namespace,
        "kind": "raycluster",
        "name": CLUSTER.name,
        "session": session,
    }
    (folder / "pair.json").write_text(json.dumps(identity))
    return Pair(folder)


def _check_libraries() -> None:
    """Say at once what the library job would stumble over in its workers."""
    needed = {"Serve": "starlette", "Data": "pyarrow", "Train": "pandas"}
    for library, package in needed.items():
        if find_spec(package) is None:
            raise RuntimeError(
                f"Ray {library} needs {package}, which is not installed: the rich session needs"
                " the environment of `make` (extra dev), or ray[serve,data,train]"
            )


def _run(cluster: RealCluster, script: Path, submission_id: str) -> None:
    status = cluster.submit(script, submission_id=submission_id, runtime_env=RUNTIME_ENV)
    if status != 0:
        text = cluster.log(submission_id).read_text()[-3000:]
        raise RuntimeError(f"{submission_id} ended with status {status}:\n{text}")


def _start(recipe: Recipe, folder: Path) -> RealCluster:
    """A running cluster in an emptied folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return RealCluster.start(folder, workers=recipe.workers)


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(pair: Pair) -> Iterator[str]:
    """A history server over the pair's storage, compiling anew; yields the session's URL."""
    for compiled in pair.tree.glob("history/v1/sessions/**/compiled"):
        shutil.rmtree(compiled)
    (pair.folder / "logs").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="ray-history-cache-") as cache,
        history_server(
            storage=pair.tree,
            cache=Path(cache),
            port=free_port(),
            log=pair.folder / "logs" / "historyserver.log",
        ) as base_url,
    ):
        yield base_url + pair.session_path


def answers(pair: Pair) -> tuple[list[Answer], list[Answer]]:
    """The live answers, and ours to the same requests."""
    live = read(pair.live)
    with serving(pair) as url:
        return live, list(ask(url, repeat(live)))


def compared(pair: Pair) -> list[Compared]:
    """The comparison with the declared rules."""
    live, ours = answers(pair)
    return compare(live, ours, RULES)
