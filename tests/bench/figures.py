"""What a benchmark is, and the registry of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tests.bench
from storage.layout import SessionRef
from storage.local.backend import LocalBackend
from tests.bench.generator import write_session

ROOT = Path(__file__).parent.parent.parent
BUILD = ROOT / "build"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number with its target: at most, or at least."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> str:
        """The target in words; `-` when there is none."""
        if self.at_most is not None:
            return f"<={self.at_most:g}"
        return "-" if self.at_least is None else f">={self.at_least:g}"

    @property
    def is_met(self) -> bool:
        """Whether the number is as good as it has to be."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return self.at_least is None or self.value >= self.at_least

    def line(self) -> str:
        """The line that is printed."""
        return f"{self.name} {self.value:.4g} {self.unit} {self.target} {'ok' if self.is_met else 'short'}"


@dataclass(frozen=True, slots=True)
class Bench:
    """What benchmarks are given: a folder for results, and large sessions."""

    folder: Path
    """Empty at the start of each benchmark, removed after it."""

    def bucket(self) -> LocalBackend:
        """The storage that holds the sessions of `session`."""
        return LocalBackend(_data())

    def session(self, tasks: int, *, layout: str) -> SessionRef:
        """Give a generated session, made once and kept; `layout` is `kuberay` or `ours`."""
        return write_session(_data(), tasks, layout=layout)


Run = Callable[[Bench], Iterator[Figure]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A registered benchmark."""

    name: str
    what: str
    run: Run


_registered: dict[str, Benchmark] = {}


def benchmark(name: str) -> Callable[[Run], Run]:
    """Register a function as a benchmark under a name that no other has."""

    def register(run: Run) -> Run:
        if name in _registered:
            raise ValueError(f"two benchmarks are called {name}")
        what = (run.__doc__ or "").strip().splitlines()
        _registered[name] = Benchmark(name, what[0] if what else "", run)
        return run

    return register


def benchmarks() -> list[Benchmark]:
    """Every benchmark of this package, by name."""
    for module in pkgutil.iter_modules(tests.bench.__path__):
        if not module.name.startswith(("test_", "__")):
            importlib.import_module(f"tests.bench.{module.name}")
    return sorted(_registered.values(), key=lambda found: found.name)


def _data() -> Path:
    folder = BUILD / "bench-data"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
