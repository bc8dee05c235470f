"""KubeRay 1.4."""

from __future__ import annotations

import pytest

from tests.operator.older.core import *  # noqa: F403  # its tests become this module's

OPERATOR = "1.4.2"

pytestmark = pytest.mark.kube
