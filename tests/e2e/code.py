"""What the Ray pods run; mounted from a ConfigMap at `/home/ray/code`."""

from __future__ import annotations

LAST_LINE = "the last line before the end"
LINES = 300
SQUARES = 20
ADDS = 5

JOB = f"""
import logging, os, time
import ray

ray.init()

@ray.remote
def square(n):
    print(f"square of {{n}}")
    return n * n

@ray.remote(max_retries=0)
def fails():
    raise ValueError("fails on purpose")

@ray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count

print(sum(ray.get([square.remote(n) for n in range({SQUARES})])))
counter = Counter.options(name="counter").remote()
print(ray.get([counter.add.remote() for _ in range({ADDS})])[-1])
try:
    ray.get(fails.remote())
except ValueError as error:
    print("caught", type(error).__name__)
for n in range({LINES}):
    print(f"line {{n}} of the job")
print({LAST_LINE!r}, flush=True)
"""

SERVICE = """
from ray import serve

@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0.1})
class Greeter:
    async def __call__(self, request):
        print("greeted", flush=True)
        return "hello"

app = Greeter.bind()
"""

SCALING = """
import time
import ray

ray.init()

@ray.remote(num_cpus=1)
def on_worker(n):
    time.sleep(1)
    return ray.get_runtime_context().get_node_id()

print("nodes", set(ray.get([on_worker.remote(n) for n in range(3)])))
"""

TICKING = """
import time
import ray

ray.init()

@ray.remote(num_cpus=1, resources={"worker": 1})
def ticks():
    n = 0
    while True:
        print(f"tick {n} {time.time():.3f}", flush=True)
        n += 1
        time.sleep(0.2)

ray.get(ticks.remote())
"""

FILES = {
    "job.py": JOB,
    "greeting.py": SERVICE,
    "scaling.py": SCALING,
    "ticking.py": TICKING,
}
