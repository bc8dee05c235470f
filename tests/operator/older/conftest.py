"""Clusters with older operators: each test module names its own in `OPERATOR`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operator.platform import Platform, missing, running_platform
from tests.operator.release import Release, default_release


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
    with default_release(platform, tmp_path_factory.mktemp("release")) as made:
        yield made
