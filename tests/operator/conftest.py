"""One platform and one release per test process; each test has namespaces of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.operator.platform import Platform, missing, running_platform
from tests.operator.pods import Space, new_space
from tests.operator.release import Release, default_release

Install = Callable[..., Release]


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """A cluster with the newest operator."""
    if absent := missing():
        pytest.skip(f"no {', '.join(absent)}; build them once with `make kubernetes`")
    with running_platform(gates=("RayCronJob",)) as found:
        yield found


@pytest.fixture(scope="session")
def release(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """The chart with its defaults, and one replica; tests do not change it."""
    with default_release(platform, tmp_path_factory.mktemp("release")) as made:
        yield made


@pytest.fixture
def install(platform: Platform, tmp_path: Path) -> Iterator[Install]:
    """A release of the test's own, for namespaces with a label of its own."""
    made: list[Release] = []

    def begin(
        *values: str, label: str = "", replicas: int = 1, certs: tuple[str, ...] = ()
    ) -> Release:
        namespace = platform.server.namespace(prefix="history")
        folder = tmp_path / namespace
        folder.mkdir()
        release = Release(platform, folder, namespace, label or f"{namespace}.test/inject")
        made.append(release)
        release.apply(*values)
        for _ in range(replicas):
            release.start_replica(*certs)
        return release

    yield begin
    for release in made:
        release.close()


@pytest.fixture
def space(platform: Platform, release: Release) -> Space:
    """A namespace whose Ray clusters keep their history."""
    del release
    return new_space(platform)


@pytest.fixture
def unlabelled(platform: Platform, release: Release) -> Space:
    """A namespace that says nothing."""
    del release
    return new_space(platform, value="")
