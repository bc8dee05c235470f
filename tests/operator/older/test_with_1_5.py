"""KubeRay 1.5, with what it brought."""

from __future__ import annotations

import pytest

from tests.operator.older.core import *  # noqa: F403  # its tests become this module's
from tests.operator.test_ray_jobs import test_a_submitter_in_the_heads_pod
from tests.operator.test_secured_clusters import test_the_collector_has_rays_token

__all__ = ["test_a_submitter_in_the_heads_pod", "test_the_collector_has_rays_token"]

OPERATOR = "1.5.1"

pytestmark = pytest.mark.kube
