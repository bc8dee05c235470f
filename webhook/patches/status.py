"""The annotation that says what was added, by what, and how."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version


def status(*, mode: str, container: str, added: Sequence[str]) -> str:
    """The annotation's value. `container` is what a later pass knows our container by."""
    content = {
        "version": injector_version(),
        "mode": mode,
        "container": container,
        "added": list(added),
    }
    return json.dumps(content, separators=(",", ":"))


@cache
def injector_version() -> str:
    """The version of the installed distribution; `0` when it runs from a bare checkout."""
    try:
        return version("ray-history-server")
    except PackageNotFoundError:
        return "0"
