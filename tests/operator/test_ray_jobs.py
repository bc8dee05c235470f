"""RayJobs in all ways of submission, RayCronJobs and RayServices: their pods know their owner."""

from __future__ import annotations

import pytest

from tests.harness.waiting import eventually
from tests.operator.pods import COLLECTOR, Pod, Space, env
from tests.operator.release import LABEL

pytestmark = pytest.mark.kube

ACK = "ray.alibabacloud.com/enable-historyserver"


def owner(pod: Pod) -> tuple[str, str]:
    """Whom the collector names as the cluster's owner."""
    told = env(pod.collector)
    return told["OWNER_KIND"], told["OWNER_NAME"]


def test_the_submitter_of_a_job_is_left_alone(space: Space) -> None:
    """A Job of Kubernetes with a sidecar would be no Job of ours; its account is its own."""
    space.apply("job-of-kubernetes")
    pods = space.ray_pods("head", "worker")
    assert [owner(pod) for pod in pods] == [("rayjob", "by-job")] * 2
    space.run_pods()
    job = eventually("a submitter", lambda: space.get("Job", "by-job"))
    assert job["spec"]["template"]["spec"]["containers"][0]["name"] == "ray-job-submitter"

    def submitters() -> list[Pod]:
        return [pod for pod in map(Pod, space.all("Pod")) if "job-name" in pod.labels]

    (submitter,) = eventually("a submitter's pod", submitters)
    assert not submitter.is_injected
    assert submitter.container_names == ["ray-job-submitter"]
    assert submitter.spec["serviceAccountName"] == "default"


@pytest.mark.parametrize(
    ("manifest", "name"), [("job-by-http", "by-http"), ("job-interactive", "by-hand")]
)
def test_jobs_without_a_submitter(space: Space, manifest: str, name: str) -> None:
    """The cluster's two pods are all there is."""
    space.apply(manifest)
    pods = space.ray_pods("head", "worker")
    assert [pod.is_injected for pod in pods] == [True] * 2
    assert [owner(pod) for pod in pods] == [("rayjob", name)] * 2
    assert space.all("Job") == []


def test_a_submitter_in_the_heads_pod(space: Space) -> None:
    """The pod does not restart its containers, but ours does; Ray and submitter keep their places.

    The submitter runs the driver: it is told to report its events, as Ray is.
    """
    space.apply("job-sidecar")
    head, worker = space.ray_pods("head", "worker")
    assert head.spec["restartPolicy"] == "Never"
    assert head.collector["restartPolicy"] == "Always"
    assert head.container_names == [COLLECTOR, "ray-head", "ray-job-submitter"]
    assert COLLECTOR not in [each["name"] for each in head.spec["containers"]]
    assert owner(head) == owner(worker) == ("rayjob", "by-sidecar")
    told = env(head.container("ray-job-submitter"))
    name = "RAY_enable_core_worker_ray_event_to_aggregator"
    assert told[name] == env(head.ray)[name] == "true"


def test_the_annotation_of_a_job_reaches_its_pods(unlabelled: Space) -> None:
    """KubeRay copies it to the RayCluster, where the webhook looks."""
    unlabelled.apply("job-by-http", annotations={ACK: "true"})
    assert all(pod.is_injected for pod in unlabelled.ray_pods("head", "worker"))


def test_a_suspended_job_gives_its_account_back(space: Space) -> None:
    """Its cluster goes, and with it the account; the next run has a cluster of its own."""
    space.apply("job-by-http")
    first = space.ray_pods("head", "worker")[0].spec["serviceAccountName"]
    space.admin.patch(space.at("RayJob", "by-http"), {"spec": {"suspend": True}})
    space.pods(0)
    eventually("the account is gone", lambda: not space.exists("ServiceAccount", first))
    space.admin.patch(space.at("RayJob", "by-http"), {"spec": {"suspend": False}})
    second = space.ray_pods("head", "worker")[0]
    assert second.is_injected
    assert second.spec["serviceAccountName"] != first


def test_a_service(space: Space) -> None:
    """Its pods are of a RayCluster that it owns; KubeRay goes on with the same cluster."""
    space.apply("service", annotations={LABEL: "true"})
    head, worker = space.ray_pods("head", "worker")
    assert owner(head) == owner(worker) == ("rayservice", "fruit")
    space.run_pods()
    space.admin.patch(space.at("RayService", "fruit"), {"metadata": {"labels": {"again": "1"}}})
    pods = space.ray_pods("head", "worker")
    assert [pod.name for pod in pods] == [head.name, worker.name]


def test_a_cron_job(space: Space, unlabelled: Space) -> None:
    """Each run is a RayJob. Its annotation reaches nothing, so the namespace's label is needed."""
    for one in (space, unlabelled):
        one.apply("cronjob", annotations={ACK: "true"})
    runs = [one.some_pod() for one in (space, unlabelled)]
    assert [pod.is_injected for pod in runs] == [True, False]
    head = runs[0]
    assert owner(head)[0] == "rayjob"
    assert owner(head)[1].startswith("nightly-")
    for one in (space, unlabelled):
        one.admin.delete(one.at("RayCronJob", "nightly"))
