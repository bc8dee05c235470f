"""The rich session's second job: Ray Serve, Ray Data and Ray Train, each well and failing.

Serve's applications stay deployed when the driver ends, as in a cluster that dies in use.
"""

# mypy: disable-error-code="untyped-decorator, attr-defined"
# Ray makes of a class with its decorator something that has no static type.

from __future__ import annotations

import os
import tempfile
from typing import Any

os.environ["RAY_TRAIN_ENABLE_STATE_TRACKING"] = "1"  # read by Train's controller

import ray
import ray.train
from ray import serve
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

SMALL = {"num_cpus": 0.1}


@serve.deployment(num_replicas=2, ray_actor_options=SMALL)
class Greeter:
    """Answers."""

    async def __call__(self, name: str) -> str:
        """Greet."""
        print(f"greeting {name}")
        return f"hello {name}"


@serve.deployment(ray_actor_options=SMALL)
class Front:
    """Asks the greeter: an application of two deployments."""

    def __init__(self, greeter: Any) -> None:
        self.greeter = greeter

    async def __call__(self, name: str) -> str:
        """Pass the question on."""
        answer: str = await self.greeter.remote(name)
        return answer


@serve.deployment(ray_actor_options=SMALL)
class Unstartable:
    """Its constructor fails, so its application does not deploy."""

    def __init__(self) -> None:
        raise ValueError("the deployment fails on purpose")


class AddOne:
    """A stage of actors."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Add one."""
        batch["id"] = batch["id"] + 1
        return batch


def even(row: dict[str, Any]) -> bool:
    """A filter."""
    return bool(row["id"] % 2 == 0)


def breaks(row: dict[str, Any]) -> dict[str, Any]:
    """Fails at its first row."""
    raise ValueError(f"the row fails on purpose: {sorted(row)}")


def trains(config: dict[str, Any]) -> None:
    """Report once, or fail."""
    if config["fails"]:
        raise RuntimeError("the training fails on purpose")
    ray.train.report({"loss": 0.5})


def use_serve() -> None:
    """Two applications, of which one works."""
    handle = serve.run(Front.bind(Greeter.bind()), name="greetings", route_prefix="/greetings")
    print([handle.remote(f"caller {number}").result() for number in range(4)])
    try:
        serve.run(Unstartable.bind(), name="broken", route_prefix="/broken")
    except RuntimeError as error:
        print("as planned:", type(error).__name__)


def use_data() -> None:
    """Two datasets, of which one works."""
    numbers = ray.data.range(200, override_num_blocks=4)
    doubled = numbers.map_batches(AddOne, concurrency=1, **SMALL).filter(even, **SMALL)
    print("rows", doubled.count(), doubled.take(2))
    try:
        ray.data.range(10, override_num_blocks=1).map(breaks, **SMALL).materialize()
    except ray.exceptions.RayTaskError as error:
        print("as planned:", type(error).__name__)


def use_train() -> None:
    """Two runs, of which one works."""
    scaling = ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.1})
    with tempfile.TemporaryDirectory(prefix="ray-train-") as folder:
        for name, fails in (("learns", False), ("breaks", True)):
            trainer = DataParallelTrainer(
                trains,
                train_loop_config={"fails": fails},
                scaling_config=scaling,
                run_config=ray.train.RunConfig(name=name, storage_path=folder),
            )
            try:
                print(name, trainer.fit().metrics)
            except ray.train.TrainingFailedError as error:
                print("as planned:", type(error).__name__)


def main() -> None:
    """Use everything."""
    ray.init()
    use_serve()
    use_data()
    use_train()
    print("the library job is done")


if __name__ == "__main__":
    main()
