"""One platform for all end-to-end tests; each test has Ray clusters of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import images, node
from tests.e2e.platform import Platform


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """A node with the product; skipped with the reason where none can be (a failure in CI)."""
    if reasons := node.obstacles():
        pytest.skip("; ".join(reasons))
    if absent := images.missing_tools():
        pytest.skip(f"no {', '.join(absent)} to build images with")
    archives = images.build_all()
    folder = Path(tempfile.mkdtemp(prefix="node-"))  # short: containerd's sockets lie below
    started = node.Node.start(folder, images=archives)
    try:
        platform = Platform.install(started, folder)
        yield platform
        platform.close()
    finally:
        started.stop()
        shutil.rmtree(folder, ignore_errors=True)
