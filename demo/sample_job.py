"""The demo's job: a little of everything that a Ray user meets. About ten seconds long.

`EXPECTED` is what the demo and the tests check afterwards.
"""

# mypy: disable-error-code="untyped-decorator, attr-defined"
# Ray makes of a class with its decorator something that has no static type.

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=0.5)
def square(number: int) -> int:
    """A normal task; prints to both streams."""
    print(f"square of {number} is {number * number}")
    print(f"square({number}) wrote this line to stderr", file=sys.stderr)
    return number * number


@ray.remote(num_cpus=0.1)
def leaf(number: int) -> int:
    """A nested task."""
    return number + 1


@ray.remote(num_cpus=0.1)
def parent(width: int) -> int:
    """A task that starts others and waits for them."""
    return sum(ray.get([leaf.remote(number) for number in range(width)]))


@ray.remote(num_cpus=0.5, max_retries=0)
def fails() -> None:
    """Fails with an error that people must find again later."""
    raise ValueError("the demo's task fails on purpose: 数 ≠ 0")


@ray.remote(num_cpus=0.5, max_retries=2, retry_exceptions=True)
def fails_once(marker: str) -> str:
    """Fails in its first attempt only."""
    path = Path(marker)
    if not path.exists():
        path.write_text("first attempt was here")
        raise RuntimeError("the first attempt fails on purpose")
    return "the second attempt succeeded"


@ray.remote(num_cpus=0.5)
def slow(seconds: float) -> float:
    """Takes its time."""
    time.sleep(seconds)
    return seconds


@ray.remote(num_cpus=0.1)
class Counter:
    """An actor that counts, and can crash."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int) -> int:
        """Add and return the new value."""
        self.value += amount
        print(f"counter is {self.value}")
        return self.value

    def crash(self) -> None:
        """End this worker process without a word."""
        os._exit(1)


def write_user_log() -> None:
    """A log of the user's own in the session's log folder: kept like Ray's own files."""
    folder = Path(os.environ["RAY_TMPDIR"], "ray", "session_latest", "logs")
    handler = logging.FileHandler(folder / "demo-user.log")
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log = logging.getLogger("demo.user")
    log.addHandler(handler)
    log.warning("a line of the user's own log, with ünïcödé")
    handler.close()


def run_tasks() -> None:
    """Normal, nested, failing, retried and slow tasks."""
    print("squares:", ray.get([square.remote(number) for number in range(20)]))
    print("nested:", ray.get(parent.remote(5)))
    try:
        ray.get(fails.remote())
    except ValueError as error:
        print("as planned:", str(error).splitlines()[-1])
    marker = Path(os.environ["RAY_TMPDIR"], "ray", "session_latest", "fails-once-marker")
    print(ray.get(fails_once.remote(str(marker))))


def run_actors() -> list[Any]:
    """Plain, named, detached, restarted and killed actors; the returned ones stay alive."""
    plain = Counter.remote()
    named = Counter.options(name="named-counter").remote()
    detached = Counter.options(name="detached-counter", lifetime="detached").remote()
    restarted = Counter.options(
        name="restarted-counter", max_restarts=1, max_task_retries=0
    ).remote()
    killed = Counter.options(name="killed-counter").remote()
    print("counters:", ray.get([each.add.remote(2) for each in (plain, named, detached, killed)]))
    ray.kill(killed)
    try:
        ray.get(restarted.crash.remote())
    except ray.exceptions.RayActorError:
        print("the actor crashed, as planned")
    for _ in range(100):
        try:
            print("after its restart:", ray.get(restarted.add.remote(1)))
            break
        except ray.exceptions.RayActorError:
            time.sleep(0.1)
    return [plain, named, restarted]


def run_placement_group() -> None:
    """A placement group with a task in it, removed again; a second one stays."""
    group = placement_group([{"CPU": 0.5}, {"CPU": 0.5}], strategy="PACK", name="demo-group")
    ray.get(group.ready())
    where = PlacementGroupSchedulingStrategy(placement_group=group)
    print("in the group:", ray.get(square.options(scheduling_strategy=where).remote(12)))
    remove_placement_group(group)
    kept = placement_group([{"CPU": 0.1}], name="kept-group", lifetime="detached")
    ray.get(kept.ready())


def main() -> None:
    """Run everything."""
    ray.init()
    waiting = slow.remote(4.0)
    write_user_log()
    run_tasks()
    actors = run_actors()
    run_placement_group()
    print("slow:", ray.get(waiting))
    del actors
    print("the sample job is done")


if __name__ == "__main__":
    main()
