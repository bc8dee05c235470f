"""Fixtures with real Ray, known to every test."""

from __future__ import annotations

import os
import shutil

import pytest

from demo.namespace import Namespace, NamespaceError
from tests.fidelity.pairs import KEPT, RECIPES, Pair, make


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip with the reason where the system does not allow namespaces (in CI: a failure)."""
    try:
        Namespace.start().close()
    except NamespaceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def small_pair(namespaces: None) -> Pair:
    """The demo's job on one head: collected, dead, with the live answers. Made once per run.

    `make test` runs the tests with the mark `ray` in one process, after and apart from the others:
    a real Ray and a browser would be starved, and the session would be made twice.
    """
    del namespaces
    if os.environ.get("KEPT_PAIR"):  # for work on the comparison: no new Ray session
        return Pair(KEPT / "small")
    return make(RECIPES["small"], KEPT / "small")


@pytest.fixture(scope="session")
def chromium() -> None:
    """Skip where no Chromium is installed (in CI: a failure)."""
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("chromium not found: install it (Debian: apt install chromium)")
