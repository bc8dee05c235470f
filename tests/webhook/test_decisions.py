"""Who gets a collector, who does not, and what is said about it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.samples import CLUSTER, LABELLED, NAMES, PLAIN, SETTINGS, facts, sample
from webhook.decisions import Decision, Reason, decide, explain
from webhook.facts import ClusterFacts, NamespaceFacts
from webhook.patches import patched
from webhook.settings import (
    ACK_ANNOTATION,
    INJECT,
    Collector,
    ForeignSinkPolicy,
    HostNetworkPolicy,
    Scope,
    Settings,
)

HEAD = "kuberay-1.6-head"
WORDS = (None, "true", "false")


def decided(
    pod: dict[str, Any],
    *,
    namespace: NamespaceFacts | None = LABELLED,
    cluster: ClusterFacts | None = CLUSTER,
    settings: Settings = SETTINGS,
) -> Decision:
    """The decision for a pod in a labelled namespace."""
    return decide(pod, namespace=namespace, cluster=cluster, settings=settings)


def annotated(name: str = HEAD, **values: str) -> dict[str, Any]:
    """A sample whose inject annotation has a value."""
    pod = sample(name)
    pod["metadata"]["annotations"] |= values
    return pod


def cluster(**annotations: str) -> ClusterFacts:
    """The RayCluster with annotations."""
    return ClusterFacts("default", "demo", CLUSTER.uid, annotations)


@pytest.mark.parametrize(("pod", "ray", "label"), list(product(WORDS, WORDS, (False, True))))
@pytest.mark.parametrize("name", [INJECT, ACK_ANNOTATION])
def test_precedence(pod: str | None, ray: str | None, label: bool, name: str) -> None:
    """Pod off, RayCluster off, pod on, RayCluster on, namespace; the strongest that speaks wins."""
    if pod == "false":
        expected = Reason.POD_OPTED_OUT
    elif ray == "false":
        expected = Reason.CLUSTER_OPTED_OUT
    elif pod == "true":
        expected = Reason.POD_ANNOTATION
    elif ray == "true":
        expected = Reason.CLUSTER_ANNOTATION
    else:
        expected = Reason.NAMESPACE_LABEL if label else Reason.NOT_OPTED_IN
    decision = decided(
        annotated(**({INJECT: pod} if pod else {})),
        namespace=LABELLED if label else PLAIN,
        cluster=cluster(**({name: ray} if ray else {})),
    )
    assert decision.reason is expected
    assert decision.inject == (
        expected.value in ("pod_annotation", "cluster_annotation", "namespace_label")
    )


def test_no_wins_where_two_words_disagree() -> None:
    """A pod's label against its annotation; both annotations of a RayCluster."""
    pod = annotated(**{INJECT: "true"})
    pod["metadata"]["labels"][INJECT] = "false"
    assert decided(pod).reason is Reason.POD_OPTED_OUT
    both = cluster(**{ACK_ANNOTATION: "true", INJECT: "false"})
    assert decided(sample(HEAD), cluster=both).reason is Reason.CLUSTER_OPTED_OUT


@pytest.mark.parametrize("word", ["TRUE", " True ", "enabled"])
def test_case_of_letters_does_not_matter(word: str) -> None:
    """People write True."""
    decision = decided(sample(HEAD), namespace=PLAIN, cluster=cluster(**{ACK_ANNOTATION: word}))
    assert decision.reason is Reason.CLUSTER_ANNOTATION


@pytest.mark.parametrize("word", ["yes", "1", "", "on" * 200])
def test_other_words_count_as_nothing_and_are_told(word: str) -> None:
    """A typing error is neither yes nor no; the user reads so at once."""
    decision = decided(
        annotated(**{INJECT: word}), namespace=PLAIN, cluster=cluster(**{ACK_ANNOTATION: word})
    )
    assert decision.reason is Reason.NOT_OPTED_IN
    assert len(decision.warnings) == 2
    assert all("only true and false count" in each for each in decision.warnings)
    assert all(len(each) <= 120 for each in decision.warnings)


def test_namespaces_may_use_label_or_annotation() -> None:
    """The label is stronger; a namespace labelled `disabled` is left out altogether."""
    yes, no = {INJECT: "enabled"}, {INJECT: "disabled"}
    pod = annotated(**{INJECT: "true"})
    assert decided(sample(HEAD), namespace=NamespaceFacts("a", {}, yes)).inject
    assert decided(pod, namespace=NamespaceFacts("a", no, yes)).reason is Reason.EXCLUDED_NAMESPACE
    assert decided(pod, namespace=NamespaceFacts("kube-system")).reason is Reason.EXCLUDED_NAMESPACE


def test_label_name_is_a_setting() -> None:
    """An operator may have a name of its own."""
    settings = Settings(scope=Scope(label="example.com/history"), collector=SETTINGS.collector)
    namespace = NamespaceFacts("a", {"example.com/history": "enabled"})
    assert decided(sample(HEAD), namespace=namespace, settings=settings).inject
    assert not decided(sample(HEAD), namespace=LABELLED, settings=settings).inject


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kuberay-1.7-redis-cleanup", Reason.NOT_A_RAY_NODE),
        ("kuberay-1.6-submitter", Reason.NOT_A_RAY_POD),
        ("kuberay-1.7-head-native-collector", Reason.NATIVE_COLLECTOR),
        ("kuberay-1.6-head-user-collector", Reason.USER_COLLECTOR),
        ("user-container-of-our-name", Reason.NAME_TAKEN),
        ("user-windows", Reason.WINDOWS),
    ],
)
def test_pods_that_must_be_left_alone(name: str, reason: Reason) -> None:
    """Whatever asks for a collector."""
    decision = decided(annotated(name, **{INJECT: "true"}))
    assert (decision.inject, decision.reason) == (False, reason)


def test_policies_may_skip() -> None:
    """Pods on the node's network and those with a foreign sink, when the settings say so."""
    settings = Settings(
        collector=Collector(
            host_network=HostNetworkPolicy.SKIP, foreign_sink=ForeignSinkPolicy.SKIP
        )
    )
    for name, reason in (
        ("user-host-network", Reason.HOST_NETWORK),
        ("user-events-elsewhere", Reason.FOREIGN_EVENT_SINK),
    ):
        assert decided(sample(name), settings=settings).reason is reason
        assert decided(sample(name)).inject


def test_opentelemetry_collector_is_not_taken_for_ours() -> None:
    """The name alone says nothing."""
    pod = sample(HEAD)
    pod["spec"]["containers"].append(
        {
            "name": "otel-collector",
            "image": "otel/opentelemetry-collector:1",
            "args": ["--config=/c"],
        }
    )
    assert decided(pod).inject


@pytest.mark.parametrize(
    "container",
    [
        {
            "name": "x",
            "image": "a.example/b:1",
            "command": ["/usr/bin/collector"],
            "args": ["--role=Head"],
        },
        {
            "name": "x",
            "image": "a.example/b:1",
            "command": ["sh", "-c", "sleep 1; collector --role Head"],
        },
        {
            "name": "x",
            "image": "kuberay/collector@sha256:00",
            "env": [{"name": "RAY_ROLE", "value": "Head"}],
        },
        {"name": "collector", "image": "a.example/b", "args": ["--ray-cluster-name=a"]},
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_collectors_put_in_by_hand_are_found(container: dict[str, Any], field: str) -> None:
    """By program, image or name, if it is told its part."""
    pod = sample(HEAD)
    pod["spec"].setdefault(field, []).append(container)
    assert decided(pod).reason is Reason.USER_COLLECTOR


def test_own_container_is_checked_again_only_with_our_status() -> None:
    """The annotation alone, or of something unreadable, is no collector."""
    once = patched(sample(HEAD), facts=facts(), settings=SETTINGS).pod
    assert decided(once).reason is Reason.ALREADY_INJECTED
    assert decided(once).inject
    for status in ("{}", "[", '"x"', '{"container": "gone"}', '{"container": ["a"]}'):
        pod = annotated(**{"rayhistory.io/status": status})
        assert decided(pod).reason is Reason.NAMESPACE_LABEL


def test_unknown_facts_say_nothing() -> None:
    """When the API server did not answer, only the pod itself speaks."""
    assert decided(sample(HEAD), namespace=None, cluster=None).reason is Reason.NOT_OPTED_IN
    pod = annotated(**{INJECT: "true"})
    assert decided(pod, namespace=None, cluster=None).reason is Reason.POD_ANNOTATION


@pytest.mark.parametrize("name", NAMES)
def test_explanation_agrees_with_the_decision(name: str) -> None:
    """Its last check decides, and no other."""
    pod = sample(name)
    decision, checks = explain(pod, namespace=LABELLED, cluster=CLUSTER, settings=SETTINGS)
    assert decision == decided(pod)
    assert [check.decides for check in checks] == [False] * (len(checks) - 1) + [True]
    assert checks[-1].answer == decision.message
    assert all(check.question.endswith("?") for check in checks)


BROKEN = [
    ("containers", []),
    ("containers", None),
    ("containers", {"name": "ray"}),
    ("containers", ["ray"]),
    ("initContainers", {"a": 1}),
    ("initContainers", 3),
    ("volumes", ["x"]),
    ("imagePullSecrets", "x"),
    ("securityContext", []),
]


@pytest.mark.parametrize(("field", "value"), BROKEN)
def test_broken_shapes_are_called_so(field: str, value: object) -> None:
    """The API server would not send them; an aggregated one might."""
    pod = sample(HEAD)
    pod["spec"][field] = value
    assert decided(pod).reason is Reason.MALFORMED


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "env", "image", "command", "ports", "labels", "annotations"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(metadata=JSON, containers=JSON, others=JSON, labelled=st.booleans())
def test_no_shape_makes_it_fail(
    metadata: object, containers: object, others: object, labelled: bool
) -> None:
    """Whatever comes, there is a decision."""
    pod: dict[str, Any] = {
        "metadata": metadata,
        "spec": {"containers": containers, "volumes": others},
    }
    if labelled:
        pod["metadata"] = {
            "labels": {"ray.io/cluster": "demo", "ray.io/node-type": "head"},
            "annotations": metadata,
        }
    assert decided(pod).reason in Reason
