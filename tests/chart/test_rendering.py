"""What the chart renders: valid everywhere, complete, and the same twice."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate
import msgspec
import pytest
import yaml

from certs.settings import Settings as CertsSettings
from tests.chart import schema
from tests.chart.rendering import ALL_VALUES, Rendering, rendered
from webhook.settings import Settings

VERSIONS = ("1.25", "1.28", "1.30", "1.34", "1.37")
FOREIGN = {"ServiceMonitor", "PrometheusRule", "HTTPRoute", "Certificate", "Issuer"}
"""Kinds of other projects, of which no schema is at hand."""
OLD_ENOUGH = {"collector": {"serviceAccount": {"guardPrefix": False}}}


@pytest.mark.parametrize("kubernetes", VERSIONS)
@pytest.mark.parametrize("every_switch", [False, True])
def test_every_object_fits_the_strict_schema(kubernetes: str, every_switch: bool) -> None:
    """Of each Kubernetes that the chart says it supports."""
    files = (ALL_VALUES,) if every_switch else ()
    values = OLD_ENOUGH if kubernetes < "1.30" else {}
    result = rendered(values, files=files, kubernetes=f"{kubernetes}.0")
    assert result.status == 0, result.error
    assert len(result.objects) > 15
    for each in result.objects:
        if each["kind"] not in FOREIGN:
            kubernetes_validate.validate(each, kubernetes, strict=True)


def test_two_renderings_are_equal() -> None:
    """Nothing is random: GitOps tools would see a change at each look."""
    assert rendered(files=(ALL_VALUES,)).objects == rendered(files=(ALL_VALUES,)).objects


@pytest.mark.parametrize("every_switch", [False, True])
def test_the_programs_accept_the_settings_that_the_chart_writes(every_switch: bool) -> None:
    """The tables of webhook and certs refuse unknown names, so this also finds drift."""
    result = rendered({}, files=(ALL_VALUES,) if every_switch else ())
    name = "ray-history-webhook" if every_switch else "ray-history-server-webhook"
    data = result.one("ConfigMap", name)["data"]
    settings = msgspec.yaml.decode(data["webhook.yaml"], type=Settings)
    certs = msgspec.yaml.decode(data["certs.yaml"], type=CertsSettings)
    configuration = result.one("MutatingWebhookConfiguration")["metadata"]["name"]
    assert certs.configurations == (configuration,)
    assert certs.secret == result.one("Secret")["metadata"]["name"]
    namespace = "history" if every_switch else "kuberay"
    assert namespace in settings.scope.excluded_namespaces
    assert settings.collector.image
    assert any(one.name == "STORAGE_BACKEND" for one in settings.collector.env)
    assert {m["name"] for m in settings.collector.volume_mounts} == {
        volume["name"] for volume in settings.collector.volumes
    }


def test_the_schema_is_that_of_values_and_settings() -> None:
    """Made anew by `python -m tests.chart.schema`."""
    assert schema.SCHEMA.read_text() == schema.text()


def test_the_file_with_every_switch_sets_every_optional_object() -> None:
    """So that the tests above see all templates."""
    kinds = rendered(files=(ALL_VALUES,)).kinds()
    assert kinds >= {
        "Ingress", "HTTPRoute", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy",
        "ServiceMonitor", "PrometheusRule", "ValidatingAdmissionPolicy", "PersistentVolume",
        "PersistentVolumeClaim", "ClusterRole", "Role",
    }  # fmt: skip


def test_the_service_has_the_name_and_port_of_the_guides() -> None:
    """`kubectl port-forward svc/ray-history-server 8080:80`, whatever the release is called."""
    service = rendered().one("Service", "ray-history-server")
    assert [port["port"] for port in service["spec"]["ports"]] == [80]


def _containers(result: Rendering) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    found = []
    for each in result.objects:
        spec = each.get("spec", {}).get("template", {}).get("spec") or each.get("spec", {})
        found += [
            (each["metadata"]["name"], spec, container) for container in spec.get("containers", [])
        ]
    return found


@pytest.mark.parametrize("every_switch", [False, True])
def test_every_container_is_restricted(every_switch: bool) -> None:
    """As the Pod Security Standard `restricted` asks, with a read-only root besides."""
    result = rendered({}, files=(ALL_VALUES,) if every_switch else ())
    containers = _containers(result)
    assert {container["name"] for _, _, container in containers} == {
        "webhook", "certs", "historyserver", "reachable",
    }  # fmt: skip
    for name, spec, container in containers:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True
        assert context["runAsNonRoot"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not spec.get("hostNetwork")
        assert container["resources"]["requests"]


def test_no_object_holds_a_secret_by_default() -> None:
    """The one Secret is empty: `certs` fills it."""
    secret = rendered().one("Secret")
    assert "data" not in secret
    assert "stringData" not in secret


def test_the_server_gets_no_token_of_kubernetes() -> None:
    """It reads storage only."""
    spec = rendered().one("Deployment", "ray-history-server")["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False


def test_values_with_a_wrong_name_are_refused() -> None:
    """With the place."""
    result = rendered({"collector": {"gracePeriod": 5}})
    assert result.status != 0
    assert "/collector" in result.error
    assert "gracePeriod" in result.error


NO_LOGIN = "everybody who reaches the server"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"storage": {"backend": "gcs"}}, "storage.backend=gcs"),
        ({"server": {"ingress": {"enabled": True, "hosts": ["a"]}}}, NO_LOGIN),
        ({"server": {"service": {"type": "LoadBalancer"}}}, NO_LOGIN),
        ({"server": {"httpRoute": {"enabled": True, "parentRefs": [{"name": "g"}]}}}, NO_LOGIN),
        ({"collector": {"serviceAccount": {"mode": "fixed"}}}, "serviceAccount.name"),
        ({"identity": {"rrsa": {"enabled": True}}}, "roleArn and providerArn"),
        ({"tls": {"mode": "existingSecret"}}, "tls.secretName"),
        ({"server": {"serviceAccount": {"create": False}}}, "server.serviceAccount.name"),
        (
            {"server": {"autoscaling": {"enabled": True, "minReplicas": 5, "maxReplicas": 2}}},
            "maxReplicas is less",
        ),
    ],
)
def test_combinations_that_cannot_work_are_refused(values: dict[str, Any], told: str) -> None:
    """In a sentence that says what to do."""
    result = rendered(values)
    assert result.status != 0
    assert told in result.error


def test_an_old_kubernetes_is_refused() -> None:
    """By the chart's kubeVersion."""
    result = rendered(kubernetes="1.24.0")
    assert result.status != 0
    assert "kubeVersion" in result.error


@pytest.mark.parametrize(("kubernetes", "conditions"), [("1.27.9", False), ("1.28.0", True)])
def test_match_conditions_only_where_the_api_server_has_them(
    kubernetes: str, conditions: bool
) -> None:
    """Kubernetes 1.28 and later."""
    hooks = rendered(kubernetes=kubernetes).one("MutatingWebhookConfiguration")["webhooks"]
    assert all(("matchConditions" in hook) is conditions for hook in hooks)


def test_rights_for_accounts_only_where_accounts_are_made() -> None:
    """Least privilege, by feature."""

    def resources(values: dict[str, Any]) -> set[str]:
        role = rendered(values).one("ClusterRole", "kuberay-ray-history-server-hook")
        return {resource for rule in role["rules"] for resource in rule["resources"]}

    accounts = {"serviceaccounts", "rolebindings", "clusterroles"}
    assert accounts <= resources({})
    fixed = resources({"collector": {"serviceAccount": {"mode": "preserve"}, "mode": "native"}})
    assert not accounts & fixed
    assert "nodes" not in fixed
    assert "persistentvolumeclaims" in fixed
    volume = {"storage": {"local": {"volume": {"nfs": {"server": "nfs", "path": "/"}}}}}
    assert "persistentvolumeclaims" not in resources(volume)
    no_report = resources({"webhook": {"reportEverySeconds": 0}})
    assert "pods" not in no_report
    assert "*" not in {*resources({}), *fixed}


def test_the_failure_policy_fail_is_for_labelled_namespaces_only() -> None:
    """A webhook that is down must never stop pods that nobody asked it about."""
    hooks = rendered({"injection": {"failurePolicy": "Fail"}}).one("MutatingWebhookConfiguration")
    assert [hook["failurePolicy"] for hook in hooks["webhooks"]] == ["Fail", "Ignore"]


def test_the_certificate_manager_mode_runs_no_certs() -> None:
    """And asks for the CA to be filled in."""
    result = rendered({"tls": {"mode": "certManager"}})
    assert {"Issuer", "Certificate"} <= result.kinds()
    names = {container["name"] for _, _, container in _containers(result)}
    assert "certs" not in names
    annotations = result.one("MutatingWebhookConfiguration")["metadata"]["annotations"]
    assert annotations["cert-manager.io/inject-ca-from"] == "kuberay/ray-history-server-webhook"
    assert "Role" not in result.kinds()


def test_rules_and_dashboard_name_metrics_that_exist() -> None:
    """A renamed metric would silence an alert."""
    known = _known_metrics()
    rules = rendered(files=(ALL_VALUES,)).one("PrometheusRule")
    board = (schema.CHART / "dashboards/ray-history.json").read_text()
    used = set(re.findall(r"rayhistory_\w+", yaml.safe_dump(rules) + board))
    assert len(used) > 8
    assert used <= known, used - known


def _known_metrics() -> set[str]:
    """Names as the programs' own registries expose them."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415

    from certs.metrics import CertsMetrics  # noqa: PLC0415
    from historyserver.metrics import ServerMetrics  # noqa: PLC0415
    from webhook.kube.metrics import KubeMetrics  # noqa: PLC0415
    from webhook.metrics import WebhookMetrics  # noqa: PLC0415

    webhook = WebhookMetrics()
    webhook.watch_certificate(lambda: 0.0)
    KubeMetrics(webhook.registry)
    registries: list[CollectorRegistry] = [
        webhook.registry, CertsMetrics().registry, ServerMetrics().registry,
    ]  # fmt: skip
    names = set()
    for registry in registries:
        for family in registry.collect():
            suffixes = {
                "counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"),
            }  # fmt: skip
            names |= {family.name + end for end in suffixes.get(family.type, ("",))}
    return names
