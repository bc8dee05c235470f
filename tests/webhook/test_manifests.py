"""Pods inside manifests: found, judged and patched as the admission would, and put back."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
import yaml

from tests.webhook.samples import LABELLED, SETTINGS, facts, sample
from webhook.decisions import Reason
from webhook.facts import NamespaceFacts
from webhook.manifests import Injected, injected
from webhook.patches import patched
from webhook.settings import ACK_ANNOTATION, AccountMode, ServiceAccount, Settings

CLUSTER_SPEC = """
headGroupSpec:
  rayStartParams: {dashboard-host: 0.0.0.0, temp-dir: /data/ray}
  template:
    metadata: {labels: {team: a}}
    spec:
      containers:
      - name: ray-head
        image: rayproject/ray:2.55.1
        env:
        volumeMounts: [{name: d, mountPath: /data}]
      volumes: [{name: d, emptyDir: {}}]
workerGroupSpecs:
- groupName: cpu
  replicas: 2
  template:
    spec:
      containers:
      - {name: ray-worker, image: rayproject/ray:2.55.1}
- groupName: gpu
  template:
    spec:
      containers:
      - {name: ray-worker, image: rayproject/ray:2.55.1}
      volumes:
"""
KINDS = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
    "RayCronJob": ("spec", "jobTemplate", "rayClusterSpec"),
}


def resource(kind: str, **annotations: str) -> dict[str, Any]:
    """A manifest of this kind with the cluster above in it."""
    made: dict[str, Any] = {"apiVersion": "ray.io/v1", "kind": kind}
    made["metadata"] = {"name": "demo", "annotations": annotations}
    inner = made
    for step in KINDS[kind][:-1]:
        inner = inner.setdefault(step, {})
    inner[KINDS[kind][-1]] = yaml.safe_load(CLUSTER_SPEC)
    return made


def cluster_of(document: Any, kind: str) -> dict[str, Any]:
    """The RayCluster's spec in a manifest."""
    for step in KINDS[kind]:
        document = document[step]
    assert isinstance(document, dict)
    return document


def done(
    document: Any, *, namespace: NamespaceFacts = LABELLED, settings: Settings = SETTINGS
) -> Injected:
    """The manifest with collectors; the one given stays as it was."""
    before = copy.deepcopy(document)
    result = injected(document, namespace=namespace, settings=settings, native_sidecars=True)
    assert document == before
    return result


def env_of(template: dict[str, Any]) -> dict[str, Any]:
    """Our container's environment in a template."""
    collector = template["spec"]["initContainers"][-1]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in collector["env"]}


@pytest.mark.parametrize("kind", KINDS)
def test_all_groups_get_a_collector(kind: str) -> None:
    """Head and every worker group, with their roles; what was simulated is not left in it."""
    result = done(resource(kind))
    spec = cluster_of(result.document, kind)
    path = ".".join(KINDS[kind])
    assert [each.place for each in result.results] == [
        f"{path}.headGroupSpec.template",
        f"{path}.workerGroupSpecs.0.template",
        f"{path}.workerGroupSpecs.1.template",
    ]
    assert {each.decision.reason for each in result.results} == {Reason.NAMESPACE_LABEL}
    templates = [
        spec["headGroupSpec"]["template"],
        *(each["template"] for each in spec["workerGroupSpecs"]),
    ]
    assert [env_of(template)["RAY_ROLE"] for template in templates] == ["Head", "Worker", "Worker"]
    text = yaml.safe_dump(result.document)
    assert "KUBERAY_GEN_RAY_START_CMD" not in text
    assert "ray.io/node-type" not in text
    assert templates[0]["metadata"]["labels"] == {"team": "a"}
    assert spec["workerGroupSpecs"][0]["replicas"] == 2


def test_start_parameters_count() -> None:
    """KubeRay will make `--temp-dir` of them; here the volume above it is found."""
    template = done(resource("RayCluster")).document["spec"]["headGroupSpec"]["template"]
    assert env_of(template)["RAY_TMP_ROOT"] == "/data/ray"
    mounts = template["spec"]["initContainers"][-1]["volumeMounts"]
    assert {"name": "d", "mountPath": "/data"} in mounts


def test_only_a_known_cluster_has_a_head_address() -> None:
    """The RayCluster of a RayJob gets its name from KubeRay; who owns it is known."""
    worker = done(resource("RayCluster")).document["spec"]["workerGroupSpecs"][0]["template"]
    assert env_of(worker)["FQ_RAY_IP"] == "demo-head-svc.default.svc"
    assert "OWNER_KIND" not in env_of(worker)
    job = cluster_of(done(resource("RayJob")).document, "RayJob")["workerGroupSpecs"][0]["template"]
    assert "FQ_RAY_IP" not in env_of(job)
    assert (env_of(job)["OWNER_KIND"], env_of(job)["OWNER_NAME"]) == ("rayjob", "demo")


@pytest.mark.parametrize(
    ("kind", "counts"),
    [("RayCluster", True), ("RayJob", True), ("RayService", True), ("RayCronJob", False)],
)
def test_annotation_counts_where_kuberay_hands_it_on(kind: str, counts: bool) -> None:
    """That of a RayCronJob gets lost on the way to the RayCluster."""
    result = done(resource(kind, **{ACK_ANNOTATION: "true"}), namespace=NamespaceFacts("default"))
    expected = Reason.CLUSTER_ANNOTATION if counts else Reason.NOT_OPTED_IN
    assert {each.decision.reason for each in result.results} == {expected}


def test_pods_are_patched_as_at_admission() -> None:
    """The same code, the same result."""
    pod = sample("kuberay-1.6-head")
    result = done(pod)
    expected = patched(pod, facts=facts(), settings=SETTINGS)
    assert result.document == expected.pod
    assert result.results[0].place == ""


def test_second_run_changes_nothing() -> None:
    """A patched manifest is recognised."""
    once = done(resource("RayJob")).document
    again = done(once)
    assert again.document is once
    assert {each.decision.reason for each in again.results} == {Reason.ALREADY_INJECTED}


def test_pods_of_other_controllers_are_found_by_their_labels() -> None:
    """A Deployment may run Ray with KubeRay's labels; one without them is explained."""
    pod = sample("kuberay-1.6-worker")
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    deployment = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": template}}
    cron = {
        "kind": "CronJob",
        "spec": {"jobTemplate": {"spec": {"template": {"spec": pod["spec"]}}}},
    }
    result = done({"kind": "List", "items": [deployment, cron, {"kind": "ConfigMap"}, None]})
    assert [(each.kind, each.decision.reason) for each in result.results] == [
        ("Deployment", Reason.NAMESPACE_LABEL),
        ("CronJob", Reason.NOT_A_RAY_POD),
    ]
    assert (
        result.document["items"][0]["spec"]["template"]["spec"]["initContainers"][-1]["name"]
        == "rayhs-collector"
    )
    assert result.document["items"][1] is cron


@pytest.mark.parametrize(
    "document",
    [
        None,
        "text",
        [],
        {},
        {"kind": "RayCluster"},
        {"kind": "RayCluster", "spec": {"headGroupSpec": None}},
        {"kind": "List", "items": "x"},
        {"kind": "Pod", "spec": None},
    ],
)
def test_documents_without_pods_are_left(document: Any) -> None:
    """Whatever else a file holds."""
    result = done(document)
    assert result.document is document
    assert result.results == ()


def test_template_without_containers_is_explained() -> None:
    """The API server will refuse it; we say why we did nothing."""
    made = resource("RayCluster")
    made["spec"]["headGroupSpec"]["template"] = {"spec": {"containers": []}}
    made["spec"]["workerGroupSpecs"] = None
    result = done(made)
    assert [each.decision.reason for each in result.results] == [Reason.MALFORMED]
    assert result.results[0].checks[-1].decides


def test_refusals_of_the_patch_are_explained() -> None:
    """They come after the decision."""
    pod = sample("kuberay-1.6-head")
    pod["spec"]["volumes"].append({"name": "rayhs-storage", "emptyDir": {}})
    result = done(pod)
    assert result.document is pod
    assert result.results[0].decision.reason is Reason.NAME_TAKEN
    assert result.results[0].checks[-1].answer == "the pod has a volume rayhs-storage of its own"


def test_accounts_that_the_admission_makes_are_not_named() -> None:
    """Nothing would make them for a manifest, and the pods would be refused."""
    for mode, name, told in (
        (AccountMode.PER_CLUSTER, None, True),
        (AccountMode.FIXED, "rhs", False),
    ):
        rule = ServiceAccount(mode=mode, name="rhs")
        result = done(
            resource("RayCluster"), settings=msgspec.structs.replace(SETTINGS, service_account=rule)
        )
        spec = result.document["spec"]["headGroupSpec"]["template"]["spec"]
        assert spec.get("serviceAccountName") == name
        assert any("ServiceAccount" in each for each in result.results[0].warnings) == told


def test_namespace_of_the_document_counts() -> None:
    """What is assumed of the namespace holds for it."""
    made = resource("RayCluster")
    made["metadata"]["namespace"] = "kube-system"
    assert done(made).results[0].decision.reason is Reason.EXCLUDED_NAMESPACE
    made["metadata"]["namespace"] = "team"
    worker = done(made).document["spec"]["workerGroupSpecs"][0]["template"]
    assert env_of(worker)["FQ_RAY_IP"] == "demo-head-svc.team.svc"
