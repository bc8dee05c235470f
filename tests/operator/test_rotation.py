"""Certificates change while pods are made: none is refused, none goes without a collector."""

from __future__ import annotations

import pytest

from tests.harness.waiting import eventually
from tests.operator.conftest import Install
from tests.operator.load import pod_load
from tests.operator.platform import Platform
from tests.operator.pods import new_space

pytestmark = [pytest.mark.kube, pytest.mark.slow]

QUICK = (
    "--publish-seconds=10",
    "--remove-seconds=10",
    "--skew-seconds=0",
    "--check-every-seconds=0.5",
)


def test_leaf_and_authority_are_rotated_under_load(platform: Platform, install: Install) -> None:
    """Three leaves, then a new CA until the old one is gone, by two replicas."""
    release = install("injection.failurePolicy=Fail", replicas=2, certs=QUICK)
    (replica, _) = release.replicas.values()
    space = new_space(platform, label=release.label)
    space.apply("cluster")
    space.pods(3)
    authority = release.secret()["ca.crt"]
    with pod_load(space, "plain") as load:
        for _ in range(3):
            leaf = release.secret()["tls.crt"]
            release.certs(replica, "rotate")
            assert release.secret()["tls.crt"] != leaf
            load.await_more(20)
        release.certs(replica, "rotate", "--ca")
        eventually("the new CA beside the old", lambda: release.secret()["ca.crt"] != authority)
        eventually(
            "the new CA alone",
            lambda: authority not in release.secret()["ca.crt"] and release.is_trusted(),
            within_s=120,
        )
        load.await_more(50)
    assert load.faults == []
    assert load.injected > 200
