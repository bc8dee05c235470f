"""Clusters with older operators: each test module names its own in `OPERATOR`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operator.platform import Platform, missing, running_platform
from tests.operator.pods import Space, new_space
from tests.operator.release import Release


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test with the operator that its module names."""
    metafunc.parametrize("platform", [metafunc.module.OPERATOR], indirect=True, scope="session")


@pytest.fixture(scope="session")
def platform(request: pytest.FixtureRequest) -> Iterator[Platform]:
    """A cluster with an older operator."""
    if absent := missing(request.param):
        pytest.skip(f"no {', '.join(absent)}; build them once with `make kubernetes`")
    with running_platform(kuberay=request.param) as found:
        yield found


@pytest.fixture(scope="session")
def release(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """The chart with its defaults, on that cluster."""
    namespace = platform.server.namespace(prefix="history")
    made = Release(platform, tmp_path_factory.mktemp("release"), namespace)
    made.apply()
    made.start_replica()
    yield made
    made.close()


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
