"""Which release runs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "ray-history-server"


def installed_version() -> str:
    """The version of the installed distribution; `0` when it runs from a bare checkout."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0"
