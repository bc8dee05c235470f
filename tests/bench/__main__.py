"""Runs benchmarks; see the package."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import BUILD, Bench, Benchmark, Figure, benchmarks
from tests.bench.results import DOCS, read, render, write


def main(arguments: Sequence[str]) -> int:
    """Run what is named, all when nothing is; 1 when a figure is short, 2 for an unknown name."""
    if "--write-docs" in arguments:
        DOCS.parent.mkdir(exist_ok=True)
        DOCS.write_text(render(read()))
        return 0
    known = benchmarks()
    chosen = [b for b in known if not arguments or b.name.startswith(tuple(arguments))]
    strange = [name for name in arguments if not any(b.name.startswith(name) for b in known)]
    if strange:
        names = ", ".join(b.name for b in known)
        print(
            f"bench: error: no benchmark {', '.join(strange)}; there are: {names}", file=sys.stderr
        )
        return 2
    results = {benchmark: run(benchmark) for benchmark in chosen}
    write(results)
    return 0 if all(figure.is_met for found in results.values() for figure in found) else 1


def run(benchmark: Benchmark) -> list[Figure]:
    """Run one and print its figures as they come."""
    BUILD.mkdir(exist_ok=True)
    figures = []
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        for figure in benchmark.run(Bench(Path(name))):
            print(figure.line(), flush=True)
            figures.append(figure)
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
