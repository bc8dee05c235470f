"""helm upgrade, rollback and uninstall under running Ray clusters."""

from __future__ import annotations

from importlib.metadata import version

import pytest
import yaml

from tests.cluster.client import RefusedError
from tests.operator.conftest import Install
from tests.operator.platform import Platform
from tests.operator.pods import new_space
from tests.operator.release import Release

pytestmark = pytest.mark.kube

APPLY = "application/apply-patch+yaml"


def restart(release: Release) -> None:
    """As the Deployment does when its settings changed."""
    for replica in list(release.replicas.values()):
        release.stop_webhook(replica)
    release.start_replica()


def test_an_upgrade_changes_new_pods_only_and_a_rollback_brings_the_old(
    platform: Platform, install: Install
) -> None:
    """Running pods keep what they have; the CA outlives both."""
    release = install("images.collector.repository=old")
    authority = release.secret()["ca.crt"]
    space = new_space(platform, label=release.label)
    old, new = (f"{name}:{version('ray-history-server')}" for name in ("old", "new"))

    def image(name: str) -> str:
        space.apply("restricted", name=name)
        (pod,) = space.pods(1, cluster=name)
        return str(pod.collector["image"])

    assert image("before") == old
    release.apply("images.collector.repository=new")
    assert release.is_trusted()
    restart(release)
    assert image("upgraded") == new
    release.helm("rollback", "history", "1", "--wait=false")
    restart(release)
    assert image("rolled-back") == old
    (kept,) = space.pods(1, cluster="before")
    assert kept.collector["image"] == old
    assert release.secret()["ca.crt"] == authority


def test_nothing_holds_pods_back_after_an_uninstall(platform: Platform, install: Install) -> None:
    """Not even when pods of labelled namespaces had to wait for the webhook."""
    release = install("injection.failurePolicy=Fail")
    space = new_space(platform, label=release.label)
    space.apply("restricted", name="before")
    (kept,) = space.pods(1)
    release.close()
    space.apply("restricted", name="after")
    (later,) = space.pods(1, cluster="after")
    assert not later.is_injected
    assert space.pods(1, cluster="before")[0].name == kept.name
    space.admin.delete(space.at("RayCluster", "before"))  # Its account goes without us, too.
    space.pods(0, cluster="before")


def test_a_configuration_applied_by_gitops_keeps_its_authority(install: Install) -> None:
    """The chart's text has no CA; applied over and over it does not take ours away."""
    release = install()
    text = release.helm("get", "manifest", "history")
    kind = "MutatingWebhookConfiguration"
    (body,) = (each for each in yaml.safe_load_all(text) if each and each["kind"] == kind)
    at = f"{release.hooks_path}?fieldManager=gitops&force=true"
    for _ in range(2):
        release.platform.admin.patch(at, body, APPLY)
        assert release.is_trusted()


def test_an_installation_again_goes_on_with_its_authority(
    platform: Platform, install: Install
) -> None:
    """The Secret is kept at an uninstall, and taken over."""
    release = install()
    authority = release.secret()["ca.crt"]
    release.stop()
    release.close()
    with pytest.raises(RefusedError):
        release.settings()
    release.apply()
    release.start_replica()
    assert release.secret()["ca.crt"] == authority
    space = new_space(platform, label=release.label)
    space.apply("restricted")
    assert space.pods(1)[0].is_injected
