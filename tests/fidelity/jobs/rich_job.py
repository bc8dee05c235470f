"""The rich session's job: every kind of task, actor and placement group that a page can show.

About half a minute. It leaves things open on purpose: tasks that wait for resources that do
not exist, a placement group that cannot be placed, actors that live, objects that are held.
"""

# mypy: disable-error-code="untyped-decorator, attr-defined"
# Ray makes of a class with its decorator something that has no static type.

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

UNICODE = "Ünïcödé 数据 🚀"
ANSI = "\x1b[31mred\x1b[0m"


@ray.remote(num_cpus=0.1)
def work(number: int) -> int:
    """Prints and returns."""
    print(f"work {number} says {UNICODE}")
    print(f"work {number} on stderr {ANSI}", file=sys.stderr)
    return number


@ray.remote(num_cpus=0.1)
def grandchild(number: int) -> int:
    """The third level."""
    return number


@ray.remote(num_cpus=0.1)
def child(number: int) -> int:
    """The second level."""
    return sum(ray.get([grandchild.remote(each) for each in range(number)]))


@ray.remote(num_cpus=0.1)
def root(width: int) -> int:
    """The first level."""
    return sum(ray.get([child.remote(each + 1) for each in range(width)]))


@ray.remote(num_cpus=0.1, num_returns="streaming")
def generate(count: int) -> Iterator[int]:
    """A generator task."""
    for number in range(count):  # noqa: UP028 - Ray needs a generator, not a range's iterator
        yield number


@ray.remote(num_cpus=0.1, max_retries=0)
def fails() -> None:
    """An error with Unicode and ANSI codes."""
    raise ValueError(f"{UNICODE} {ANSI} fails on purpose")


@ray.remote(num_cpus=0.1, max_retries=2, retry_exceptions=True)
def always_fails() -> None:
    """Fails in all three attempts."""
    raise KeyError("every attempt fails")


@ray.remote(num_cpus=0.1, max_retries=1)
def crashes() -> None:
    """Ends its worker process in both attempts."""
    os._exit(3)


@ray.remote(num_cpus=0.1)
def sleeps(seconds: float) -> None:
    """Sleeps; cancelled or still running at the end."""
    time.sleep(seconds)


@ray.remote(resources={"unobtainium": 1})
def never_scheduled() -> None:
    """Waits for a resource that no node has."""


@ray.remote(num_cpus=0.1)
def makes_object() -> bytes:
    """An object in the store."""
    return b"x" * 1_000_000


@ray.remote(num_cpus=0.1)
class Plain:
    """An ordinary actor."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.calls = 0

    def call(self, number: int) -> int:
        """Count."""
        self.calls += 1
        print(f"{self.label} call {number} {UNICODE}")
        return self.calls

    def raises(self) -> None:
        """A failing method."""
        raise RuntimeError(f"the method fails {UNICODE}")

    def crash(self) -> None:
        """End the process."""
        os._exit(1)


@ray.remote(num_cpus=0.1)
class Asynchronous:
    """An async actor with several calls at once."""

    async def wait(self, seconds: float) -> float:
        """Wait."""
        await asyncio.sleep(seconds)
        return seconds


@ray.remote(num_cpus=0.1)
class Broken:
    """Its constructor fails."""

    def __init__(self) -> None:
        raise ValueError(f"the constructor fails {UNICODE} {ANSI}")

    def call(self) -> None:
        """Never runs."""


def attempt(ref: Any) -> None:
    """Get a result, whatever comes."""
    try:
        print("got", ray.get(ref, timeout=60))
    except Exception as error:
        print("as planned:", type(error).__name__)


def run_tasks() -> None:
    """Tasks of every kind that end."""
    print(ray.get([work.remote(number) for number in range(30)]))
    print(ray.get([work.options(name=f"named {UNICODE}").remote(number) for number in range(3)]))
    print(ray.get(root.remote(3)))
    print([ray.get(ref) for ref in generate.remote(4)])
    for failing in (fails, always_fails, crashes):
        attempt(failing.remote())
    env = {"env_vars": {"RICH": "yes", "DB_PASSWORD": "not-a-real-one"}}
    print(ray.get(work.options(runtime_env=env).remote(100)))
    cancelled = sleeps.options(name="cancelled").remote(60)
    time.sleep(1.5)
    ray.cancel(cancelled, force=False)
    attempt(cancelled)
    forced = sleeps.options(name="force-cancelled", max_retries=0).remote(60)
    time.sleep(1.5)
    ray.cancel(forced, force=True)
    attempt(forced)


def run_on_every_node() -> None:
    """One task on each node, whichever they are."""
    for node in ray.nodes():
        where = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        print(ray.get(work.options(scheduling_strategy=where).remote(200)))
        actor = Plain.options(scheduling_strategy=where, name=f"on-{node['NodeID'][:6]}").remote()
        print(ray.get(actor.call.remote(1)))


def run_actors() -> list[Any]:
    """Actors of every kind; the returned ones stay alive."""
    plain = Plain.remote("plain")
    named = Plain.options(name="named").remote("named")
    detached = Plain.options(name="detached", lifetime="detached", namespace="rich").remote("d")
    restarted = Plain.options(name="restarted", max_restarts=2).remote("restarted")
    killed = Plain.options(name="killed").remote("killed")
    with_env = Plain.options(runtime_env={"env_vars": {"ACTOR": "yes"}}).remote("env")
    asynchronous = Asynchronous.options(max_concurrency=4).remote()
    broken = Broken.remote()
    for number in range(4):
        print(ray.get([each.call.remote(number) for each in (plain, named, detached, with_env)]))
    print(ray.get([asynchronous.wait.remote(0.2) for _ in range(6)]))
    attempt(plain.raises.remote())
    attempt(killed.call.remote(1))
    ray.kill(killed)
    attempt(killed.call.remote(2))
    attempt(restarted.crash.remote())
    for _ in range(100):
        try:
            print(ray.get(restarted.call.remote(1)))
            break
        except ray.exceptions.RayActorError:
            time.sleep(0.1)
    attempt(broken.call.remote())
    keeper = Plain.options(name="keeper", lifetime="detached").remote("keeper")
    attempt(keeper.call.remote(1))
    waiting = Plain.options(
        name="never-placed", lifetime="detached", resources={"unobtainium": 1}
    ).remote("waiting")
    return [plain, named, restarted, asynchronous, waiting]


def run_placement_groups() -> None:
    """Created, pending and removed ones."""
    removed = placement_group([{"CPU": 0.1}] * 2, strategy="SPREAD", name="removed")
    ray.get(removed.ready())
    where = PlacementGroupSchedulingStrategy(
        placement_group=removed, placement_group_bundle_index=1
    )
    print(ray.get(work.options(scheduling_strategy=where).remote(300)))
    remove_placement_group(removed)
    kept = placement_group([{"CPU": 0.1}], name=f"kept {UNICODE}", lifetime="detached")
    ray.get(kept.ready())
    placement_group([{"unobtainium": 1}], name="pending", lifetime="detached")


@ray.remote(num_cpus=0)
class Leaver:
    """A detached actor that goes on after the driver: its tasks are open when Ray dies."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def leave_open(self) -> int:
        """Start what never ends, and hold objects."""
        self.held = [
            *(sleeps.options(name="still running").remote(3600) for _ in range(2)),
            *(never_scheduled.remote() for _ in range(2)),
            makes_object.remote(),
            ray.put(b"y" * 200_000),
        ]
        ray.get(self.held[-2])
        time.sleep(2.0)
        return len(self.held)


def main() -> None:
    """Run everything."""
    ray.init(namespace="rich")
    leaver = Leaver.options(name="leaver", lifetime="detached").remote()
    print(ray.get(leaver.leave_open.remote()))
    run_tasks()
    run_on_every_node()
    actors = run_actors()
    run_placement_groups()
    print(f"the rich job is done {UNICODE} {ANSI}")
    del actors


if __name__ == "__main__":
    main()
