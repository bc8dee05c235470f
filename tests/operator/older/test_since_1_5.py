"""What KubeRay 1.5 brought."""

from __future__ import annotations

import pytest

from tests.operator.test_ray_jobs import test_a_submitter_in_the_heads_pod
from tests.operator.test_secured_clusters import test_the_collector_has_rays_token

__all__ = ["test_a_submitter_in_the_heads_pod", "test_the_collector_has_rays_token"]

OPERATORS = ("1.5.1",)

pytestmark = pytest.mark.kube
