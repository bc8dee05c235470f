"""An API server's double, and a client of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from tests.webhook.kube.api_double import ApiDouble, serving
from webhook.kube.client import Api
from webhook.kube.metrics import KubeMetrics

Wait = Callable[[Callable[[], object]], None]
Sample = Callable[..., float]


@pytest.fixture
def double() -> ApiDouble:
    """Holds what the API server has."""
    return ApiDouble()


@pytest.fixture
def api(double: ApiDouble) -> Iterator[Api]:
    """A client of the double."""
    with serving(double) as client:
        yield client


@pytest.fixture
def registry() -> CollectorRegistry:
    """A registry of its own for each test."""
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> KubeMetrics:
    """Counts into the registry."""
    return KubeMetrics(registry)


@pytest.fixture
def sample(registry: CollectorRegistry) -> Sample:
    """The value of a metric, 0 when it has none: `sample("lookups_total", resource=...)`."""

    def read(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"rayhistory_webhook_{name}", labels) or 0.0

    return read


@pytest.fixture
def wait() -> Wait:
    """Waits until something is true; fails after ten seconds."""

    def until(is_so: Callable[[], object]) -> None:
        end_s = time.monotonic() + 10
        while not is_so():
            assert time.monotonic() < end_s, "it did not come to be within 10 s"
            time.sleep(0.01)

    return until
