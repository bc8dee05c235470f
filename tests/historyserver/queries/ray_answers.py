"""Real answers of Ray 2.55.1 (`tests/samples/ray-api`), as snapshots and as what is expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from historyserver.compiling.snapshots import split

FOLDER = Path(__file__).parents[2] / "samples" / "ray-api"


def live(name: str) -> Any:
    """The body of an answer of the live dashboard."""
    return json.loads((FOLDER / f"{name}.json").read_text())["body"]


def as_snapshot(name: str, body: Any) -> dict[tuple[str, str], Any]:
    """A dashboard answer as the compiled session keeps it, split as compiling splits it."""
    return {
        (name, item): msgspec.json.decode(part)
        for item, part in split(name, json.dumps(body).encode())
    }
