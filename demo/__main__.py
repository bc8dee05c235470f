"""`python -m demo [--once] [--data-dir demo-data] [--port 8080]`."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType

from demo.checks import Session, run_checks
from demo.collector import Cluster
from demo.data_dir import DataDir, check_port_free, prepare
from demo.namespace import NamespaceError
from demo.progress import DemoError, Progress
from demo.ray_head import check_python
from demo.server import history_server
from demo.session import run_session

CLUSTER = Cluster(name="demo")


class Stopped(BaseException):
    """SIGTERM or SIGHUP: unwind, so that every process is ended."""


def _stop(number: int, frame: FrameType | None) -> None:
    del frame
    raise Stopped(signal.Signals(number).name)


def port_number(text: str) -> int:
    """A port number that can be listened on."""
    if not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 65535")
    return int(text)


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Collect a real Ray session, let it die, and browse it in Ray's dashboard.",
    )
    parser.add_argument(
        "--once", action="store_true", help="check the answers and end: status 0 or 1"
    )
    parser.add_argument(
        "--data-dir", type=Path, default=Path("demo-data"), help="the one folder that is used"
    )
    parser.add_argument(
        "--port", type=port_number, default=8080, help="port of the history server on 127.0.0.1"
    )
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run the demo; exit status 0 when it worked and 1 when not."""
    options = arguments(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    # Said, because a shell without job control starts `make demo &` with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        check_python(sys.executable)
        check_port_free(options.port)
        with prepare(options.data_dir) as data:
            return run(data, port=options.port, once=options.once)
    except (DemoError, NamespaceError, FileNotFoundError) as error:
        print(f"demo: error: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Stopped):
        print("\ndemo: stopped; everything that it started has ended", file=sys.stderr)
        return 130


def run(data: DataDir, *, port: int, once: bool) -> int:
    """The session, then the server."""
    progress = Progress()
    progress.say(f"everything is kept in {data.root}")
    name = run_session(data, CLUSTER, progress)
    with history_server(
        storage=data.storage, cache=data.cache, port=port, log=data.log("historyserver")
    ) as base_url:
        link = f"{base_url}/s/{CLUSTER.namespace}/raycluster/{CLUSTER.name}/{name}"
        passed = check(link, progress)
        progress.say(f"the dead session: {link}/")
        progress.say(f"all sessions:     {base_url}/")
        if not once:
            serve_until_stopped()
    if not once:
        print(f"\nThe session stays in {data.root}; to see it again:\n  {again(data)}")
    return 0 if passed else 1


def serve_until_stopped() -> None:
    """Wait for Ctrl-C or SIGTERM, which is how this part of the demo ends well."""
    print("Ctrl-C ends the history server.", flush=True)
    try:
        while True:
            signal.pause()
    except (KeyboardInterrupt, Stopped):
        pass


def again(data: DataDir) -> str:
    """The command that serves what is stored, without a new Ray session."""
    command = [
        str(Path(sys.executable).with_name("historyserver")),
        *("--storage-backend=local", f"--storage-local-dir={data.storage}"),
    ]
    return shlex.join(command)


def check(link: str, progress: Progress) -> bool:
    """Ask the dead session; prints a line per check."""
    results = []
    for passed, text in run_checks(Session(link)):
        progress.say(f"{'ok  ' if passed else 'FAIL'} {text}")
        results.append(passed)
    return all(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
