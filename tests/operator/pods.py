"""What the operator made of a manifest, and what is in a pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.client import Client
from tests.harness.waiting import eventually
from tests.operator.platform import Platform
from tests.operator.release import LABEL

MANIFESTS = Path(__file__).parent / "manifests"
COLLECTOR = "rayhs-collector"
STATUS = "rayhistory.io/status"
CLAIM = "ray-history"
"""Of the chart's defaults: Ray pods in namespaces without it have no collector."""
_CLAIM_SPEC = {
    "accessModes": ["ReadWriteMany"],
    "resources": {"requests": {"storage": "1Gi"}},
}
PLURALS = {
    "RayCluster": "/apis/ray.io/v1/namespaces/{}/rayclusters",
    "RayJob": "/apis/ray.io/v1/namespaces/{}/rayjobs",
    "RayService": "/apis/ray.io/v1/namespaces/{}/rayservices",
    "RayCronJob": "/apis/ray.io/v1/namespaces/{}/raycronjobs",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "Event": "/apis/events.k8s.io/v1/namespaces/{}/events",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the API server stored it."""

    object: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        labels: dict[str, str] = self.object["metadata"].get("labels", {})
        return labels

    @property
    def owner_uid(self) -> str:
        """Of its controller."""
        owners = self.object["metadata"].get("ownerReferences", [])
        return str(next((owner["uid"] for owner in owners), ""))

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec."""
        spec: dict[str, Any] = self.object["spec"]
        return spec

    @property
    def node_type(self) -> str:
        """`head`, `worker`, or what else there is."""
        return self.labels.get("ray.io/node-type", "")

    @property
    def ray(self) -> dict[str, Any]:
        """The Ray container: the first."""
        ray: dict[str, Any] = self.spec["containers"][0]
        return ray

    @property
    def container_names(self) -> list[str]:
        """The names of the init containers, then of the others."""
        return [
            container["name"]
            for kind in ("initContainers", "containers")
            for container in self.spec.get(kind, [])
        ]

    @property
    def is_injected(self) -> bool:
        """Whether it has our collector, and says so."""
        has = COLLECTOR in self.container_names
        assert has is (STATUS in self.object["metadata"].get("annotations", {})), self.name
        return has

    @property
    def status(self) -> dict[str, Any]:
        """What our annotation says."""
        status: dict[str, Any] = json.loads(self.object["metadata"]["annotations"][STATUS])
        return status

    @property
    def collector(self) -> dict[str, Any]:
        """Our container, a native sidecar."""
        return self.container(COLLECTOR, "initContainers")

    def container(self, name: str, kind: str = "containers") -> dict[str, Any]:
        """A container by its name."""
        (found,) = (each for each in self.spec.get(kind, []) if each["name"] == name)
        return dict(found)

    def volume(self, name: str) -> dict[str, Any]:
        """A volume by its name."""
        (found,) = (each for each in self.spec["volumes"] if each["name"] == name)
        return dict(found)


def env(container: Mapping[str, Any]) -> dict[str, str]:
    """The plain variables of a container."""
    return {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}


def mounts(container: Mapping[str, Any]) -> dict[str, str]:
    """Where the volumes of a container are: names by path, the API's own token left out."""
    return {
        each["mountPath"]: each["name"]
        for each in container.get("volumeMounts", [])
        if not each["name"].startswith("kube-api-access-")
    }


@dataclass(frozen=True, slots=True)
class Space:
    """A user's namespace."""

    admin: Client
    name: str

    def apply(self, manifest: str, **metadata: Any) -> list[dict[str, Any]]:
        """Make the objects of a file in `manifests`; `metadata` is added to Ray's own kinds."""
        text = (MANIFESTS / f"{manifest}.yaml").read_text()
        return [self.make(_with(each, metadata)) for each in yaml.safe_load_all(text)]

    def manifest(self, name: str) -> dict[str, Any]:
        """The one object of a file in `manifests`."""
        found: dict[str, Any] = yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())
        return found

    def make(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make one object."""
        made: dict[str, Any] = self.admin.post(self.at(body["kind"]), body)
        return made

    def at(self, kind: str, name: str = "") -> str:
        """Where objects of a kind are."""
        return f"{PLURALS[kind].format(self.name)}/{name}".rstrip("/")

    def make_claim(self) -> None:
        """The storage's claim, as an administrator makes it in a user's namespace."""
        kind = "PersistentVolumeClaim"
        self.make({"kind": kind, "metadata": {"name": CLAIM}, "spec": _CLAIM_SPEC})

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object."""
        found: dict[str, Any] = self.admin.get(self.at(kind, name))
        return found

    def all(self, kind: str) -> list[dict[str, Any]]:
        """All objects of a kind."""
        items: list[dict[str, Any]] = self.admin.get(self.at(kind))["items"]
        return items

    def exists(self, kind: str, name: str) -> bool:
        """Whether one is there."""
        return name in [each["metadata"]["name"] for each in self.all(kind)]

    def pods(self, count: int, **labels: str) -> list[Pod]:
        """Wait for just so many pods, with these labels (`_` stands for `-`, `node_type` for
        `ray.io/node-type`).
        """
        wanted = {f"ray.io/{name.replace('_', '-')}": value for name, value in labels.items()}

        def found() -> list[Pod]:
            pods = [Pod(each) for each in self.all("Pod")]
            return [pod for pod in pods if wanted.items() <= pod.labels.items()]

        eventually(f"{count} pods {wanted} in {self.name}", lambda: len(found()) == count)
        return found()

    def pods_of(self, uid: str, count: int) -> list[Pod]:
        """Wait for just so many pods of the RayCluster with this uid."""

        def found() -> list[Pod]:
            return [pod for pod in map(Pod, self.all("Pod")) if pod.owner_uid == uid]

        eventually(f"{count} pods of {uid}", lambda: len(found()) == count)
        return found()

    def some_pod(self) -> Pod:
        """Wait for a pod; the first there is."""
        return Pod(eventually(f"a pod in {self.name}", lambda: self.all("Pod"))[0])

    def ray_pods(self, *types: str) -> list[Pod]:
        """Wait for the pods of one RayCluster: one of each type, in this order."""
        return [pod for kind in types for pod in self.pods(1, node_type=kind)]

    def run_pods(self) -> None:
        """Say of all pods that they run, as a node would."""
        for number, pod in enumerate(self.all("Pod")):
            if "podIP" not in pod.get("status", {}):
                path = f"{self.at('Pod', pod['metadata']['name'])}/status"
                self.admin.patch(path, {"status": _running(pod, f"10.244.0.{number + 2}")})


def new_space(
    platform: Platform, *, label: str = LABEL, value: str = "enabled", security: str = ""
) -> Space:
    """A namespace with this label, if there is a value, and this level of Pod Security."""
    labels = {label: value, "pod-security.kubernetes.io/enforce": security}
    wanted = {name: text for name, text in labels.items() if text}
    space = Space(platform.admin, platform.server.namespace(labels=wanted, prefix="team"))
    space.make_claim()
    return space


def _with(body: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    if body["apiVersion"] != "ray.io/v1":
        return body
    return {**body, "metadata": {**body["metadata"], **metadata}}


def _running(pod: Mapping[str, Any], address: str) -> dict[str, Any]:
    now = pod["metadata"]["creationTimestamp"]
    state = {"state": {"running": {"startedAt": now}}, "ready": True, "restartCount": 0}

    def statuses(kind: str) -> list[dict[str, Any]]:
        containers = pod["spec"].get(kind, [])
        return [
            {**state, "name": each["name"], "image": each["image"], "imageID": "", "started": True}
            for each in containers
        ]

    kinds = ("Initialized", "PodScheduled", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": [{"type": kind, "status": "True"} for kind in kinds],
        "initContainerStatuses": statuses("initContainers"),
        "containerStatuses": statuses("containers"),
    }
