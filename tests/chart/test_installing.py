"""helm install, upgrade, rollback and uninstall of the packaged chart on a real API server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.chart import rendering
from tests.chart.rendering import helm
from tests.cluster.apiserver import ApiServer
from tests.cluster.client import Client, RefusedError

pytestmark = pytest.mark.kube

RELEASE = "history"
JSON_PATCH = "application/json-patch+json"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class Release:
    """One release in a namespace of its own."""

    kubeconfig: Path
    namespace: str
    package: Path
    admin: Client

    def helm(self, *arguments: str, fails: bool = False) -> str:
        """Run helm against the API server; asserts how it ends."""
        command = [helm(), f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, timeout=120
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def install(self, *values: str) -> str:
        """Install without waiting: there is no node to run pods."""
        return self.helm("install", RELEASE, str(self.package), "--wait=false", *_sets(values))

    def upgrade(self, *values: str) -> str:
        """The same for an upgrade."""
        return self.helm("upgrade", RELEASE, str(self.package), "--wait=false", *_sets(values))

    def hook_names(self) -> list[str]:
        """The webhook configurations there are of this namespace."""
        items: list[dict[str, Any]] = self.admin.get(HOOKS)["items"]
        names = [item["metadata"]["name"] for item in items]
        return [name for name in names if name.startswith(self.namespace)]

    def path(self, resource: str, name: str = "", *, group: str = "/api/v1") -> str:
        """Where objects of the namespace are."""
        return f"{group}/namespaces/{self.namespace}/{resource}/{name}".rstrip("/")


def _sets(values: tuple[str, ...]) -> list[str]:
    return [f"--set={value}" for value in values]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as a release has it."""
    return rendering.package(tmp_path_factory.mktemp("package"))


@pytest.fixture
def release(api_server: ApiServer, package: Path) -> Iterator[Release]:
    """Nothing is installed yet; what a test leaves is removed."""
    namespace = api_server.namespace(prefix="chart")
    found = Release(api_server.kubeconfig(), namespace, package, api_server.admin())
    yield found
    found.helm("uninstall", RELEASE, "--ignore-not-found", "--wait=false")


def test_the_packaged_chart_installs_upgrades_rolls_back_and_goes(release: Release) -> None:
    """Each step changes what it says, and the last leaves nothing that can block a pod."""
    told = release.install("server.replicas=1")
    assert "svc/ray-history-server" in told
    assert len(release.hook_names()) == 1
    deployment = release.path("deployments", "ray-history-server", group="/apis/apps/v1")
    assert release.admin.get(deployment)["spec"]["replicas"] == 1
    release.upgrade("server.replicas=3")
    assert release.admin.get(deployment)["spec"]["replicas"] == 3
    release.helm("rollback", RELEASE, "1", "--wait=false")
    assert release.admin.get(deployment)["spec"]["replicas"] == 1
    release.helm("uninstall", RELEASE, "--wait=false")
    assert release.hook_names() == []
    kept = {
        item["metadata"]["name"]
        for resource in ("secrets", "persistentvolumeclaims")
        for item in release.admin.get(release.path(resource))["items"]
    }
    assert kept == {"ray-history-server-webhook-tls", "ray-history"}


def test_an_upgrade_keeps_the_authority_that_certs_put_in(release: Release) -> None:
    """The chart owns the configuration and the Secret, `certs` their content."""
    release.install()
    (name,) = release.hook_names()
    bundle = "Q0E="
    for index in (0, 1):
        release.admin.patch(
            f"{HOOKS}/{name}",
            [{"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}],
            JSON_PATCH,
        )
    secret = release.path("secrets", "ray-history-server-webhook-tls")
    release.admin.patch(secret, {"data": {"tls.key": bundle}})
    release.upgrade("webhook.threads=8")
    assert release.admin.get(secret)["data"] == {"tls.key": bundle}
    hooks = release.admin.get(f"{HOOKS}/{name}")["webhooks"]
    assert [hook["clientConfig"].get("caBundle") for hook in hooks] == [bundle, bundle]


def test_the_kept_secret_is_taken_over_by_the_next_installation(release: Release) -> None:
    """It carries the release's name, so helm adopts it."""
    release.install()
    release.helm("uninstall", RELEASE, "--wait=false")
    release.install()
    assert len(release.hook_names()) == 1


def test_an_upgrade_that_cannot_work_changes_nothing(release: Release) -> None:
    """The check comes before anything is applied."""
    release.install()
    told = release.helm(
        "upgrade", RELEASE, str(release.package), "--set=server.service.type=NodePort", fails=True
    )
    assert "server.auth.mode=none" in told
    service = release.admin.get(release.path("services", "ray-history-server"))
    assert service["spec"]["type"] == "ClusterIP"


def test_only_the_webhook_may_use_accounts_with_the_prefix(
    release: Release, api_server: ApiServer
) -> None:
    """The guard of the prefix that cloud roles trust in every namespace."""
    release.install("collector.serviceAccount.guardPrefix=true")
    elsewhere = api_server.namespace(prefix="team")
    accounts = f"/api/v1/namespaces/{elsewhere}/serviceaccounts"
    guarded = {"metadata": {"name": "ray-historyserver-mine"}}
    with pytest.raises(RefusedError, match="made by the Ray history webhook only"):
        _eventually_refused(release.admin, accounts, guarded)
    release.admin.post(accounts, {"metadata": {"name": "ray-history"}})


def _eventually_refused(admin: Client, path: str, body: dict[str, Any]) -> None:
    """A policy takes a moment to be in force."""
    import time  # noqa: PLC0415

    for _ in range(60):
        admin.post(path, body)
        admin.delete(f"{path}/{body['metadata']['name']}")
        time.sleep(0.25)
