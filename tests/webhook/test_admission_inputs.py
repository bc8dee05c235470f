"""What a decision and a patch are given: the API server's view, the cluster's facts, an account."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest

from tests.webhook import review_kit
from tests.webhook.admission_rig import Rig, settings
from tests.webhook.fakes import FakeLookups, the_cluster
from webhook import admission as module
from webhook.admission import Entry
from webhook.decisions import decide
from webhook.facts import ClusterFacts, NamespaceFacts, PodFacts
from webhook.patches import patched

PER_CLUSTER = {"serviceAccount": {"mode": "perCluster", "prefix": "history"}}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The facts that `decide` and `patched` were called with."""
    seen: dict[str, Any] = {}

    def record_decide(pod: Any, **facts: Any) -> Any:
        seen.update(facts)
        return decide(pod, **facts)

    def record_patched(pod: Any, *, facts: PodFacts, **others: Any) -> Any:
        seen["facts"] = facts
        return patched(pod, facts=facts, **others)

    monkeypatch.setattr(module, "decide", record_decide)
    monkeypatch.setattr(module, "patched", record_patched)
    return seen


@pytest.mark.parametrize("known", [None, NamespaceFacts("ml", {"team": "a"}), "unknown"])
def test_the_namespace_entry_means_that_the_label_is_there(
    known: Any, given: dict[str, Any]
) -> None:
    """The API server's selector is newer than the watch's copy, and works when that does not."""
    rig = Rig()
    rig.lookups.namespaces_fail = known == "unknown"
    if isinstance(known, NamespaceFacts):
        rig.lookups.namespaces["ml"] = known
    assert rig.ask()["operations"]
    assert given["namespace"].labels["rayhistory.io/inject"] == "enabled"
    assert given["namespace"].labels.get("team") == ("a" if known and known != "unknown" else None)


def test_the_cluster_entry_says_nothing_of_the_namespace(given: dict[str, Any]) -> None:
    """Only the RayCluster's annotation, or the pod's, can ask for a collector there."""
    response = Rig().ask(entry=Entry.CLUSTER)
    assert response["operations"] == []
    assert given["namespace"] == NamespaceFacts("ml")


def test_the_cluster_is_found_by_owner_and_else_by_label(given: dict[str, Any]) -> None:
    """The uid of an owner reference must match; a label names any."""
    made = review_kit.pod()
    rig = Rig(lookups=FakeLookups(clusters=[the_cluster(owner="x")]))
    rig.ask(made)
    assert given["cluster"].annotations == {"owner": "x"}
    made["metadata"]["ownerReferences"][0]["uid"] = "another"
    rig.ask(made)
    assert given.pop("cluster") is None
    del made["metadata"]["ownerReferences"]
    rig.ask(made)
    assert given["cluster"].annotations == {"owner": "x"}


def test_a_pod_without_a_cluster_object_still_has_its_names(given: dict[str, Any]) -> None:
    """Ray clusters that other tools make carry the labels alone."""
    made = review_kit.pod()
    del made["metadata"]["ownerReferences"]
    assert Rig(lookups=FakeLookups(clusters=[])).ask(made)["operations"]
    assert given["facts"].cluster == ClusterFacts(namespace="ml", name="nightly", uid="")


def test_look_ups_are_made_for_ray_pods_only() -> None:
    """A configuration without a selector does not flood the API server."""
    made = review_kit.pod()
    del made["metadata"]["labels"], made["metadata"]["ownerReferences"]
    rig = Rig()
    rig.ask(made)
    assert rig.lookups.asked == []


def test_a_pod_that_says_no_needs_no_look_up_to_succeed() -> None:
    """Nobody asked for a collector: nothing is to be warned of."""
    made = review_kit.pod()
    made["metadata"]["annotations"]["rayhistory.io/inject"] = "false"
    rig = Rig(settings(scope={"onError": "refuse"}))
    rig.lookups.fails = True
    response = rig.ask(made)
    assert response["allowed"] is True
    assert response["auditAnnotations"]["reason"] == "pod_opted_out"
    assert "warnings" not in response


def test_the_account_is_made_before_the_answer(given: dict[str, Any]) -> None:
    """With the pull secrets that the pod has and those of the collector's image."""
    made = review_kit.pod(imagePullSecrets=[{"name": "mine"}])
    rig = Rig(settings(**PER_CLUSTER, collector={"imagePullSecrets": ["theirs", "mine"]}))
    assert rig.ask(made)["operations"]
    assert given["facts"].service_account == "history-nightly"
    assert rig.accounts.made == [("history-nightly", "nightly", ("mine", "theirs"), False)]


def test_an_autoscaler_is_told_of() -> None:
    """Its account needs the autoscaler's rights too."""
    made = review_kit.pod()
    made["spec"]["containers"].append({**made["spec"]["containers"][0], "name": "autoscaler"})
    rig = Rig(settings(**PER_CLUSTER))
    rig.ask(made)
    assert [one[3] for one in rig.accounts.made] == [True]


def test_a_dry_run_makes_and_tells_nothing(given: dict[str, Any]) -> None:
    """The pod keeps its account, since a missing one would be refused."""
    rig = Rig(settings(**PER_CLUSTER))
    response = rig.ask(dryRun=True)
    assert response["operations"]
    assert given["facts"].service_account == ""
    assert rig.accounts.made == []
    assert rig.events.told == []
    assert any("dry run" in warning for warning in response["warnings"])


def test_rays_token_check_keeps_the_account(given: dict[str, Any]) -> None:
    """Unless the settings say otherwise."""
    made = review_kit.pod()
    made["spec"]["containers"][0]["env"].append(
        {"name": "RAY_ENABLE_K8S_TOKEN_AUTH", "value": "true"}
    )
    rig = Rig(settings(**PER_CLUSTER))
    response = rig.ask(made)
    assert response["operations"]
    assert given["facts"].service_account == ""
    assert any("tokens" in warning for warning in response["warnings"])
    rule = {**PER_CLUSTER["serviceAccount"], "replaceUnderTokenAuth": True}
    rig = Rig(settings(serviceAccount=rule))
    rig.ask(made)
    assert [one[0] for one in rig.accounts.made] == ["history-nightly"]


def test_a_fixed_account_is_set_and_never_made(given: dict[str, Any]) -> None:
    """It is the administrator's."""
    rig = Rig(settings(serviceAccount={"mode": "fixed", "name": "shared"}))
    rig.ask(dryRun=True)
    assert given["facts"].service_account == "shared"
    assert rig.accounts.made == []


def test_account_names_fit_kubernetes_limit(given: dict[str, Any]) -> None:
    """The longest prefix and the longest name together stay below 253 characters."""
    made = review_kit.pod()
    name = "c" * 63
    made["metadata"]["ownerReferences"][0]["name"] = name
    prefix = "p" * 63
    rig = Rig(settings(serviceAccount={"mode": "perCluster", "prefix": prefix}))
    rig.lookups.clusters = [ClusterFacts("ml", name, review_kit.CLUSTER_UID)]
    rig.ask(made)
    assert given["facts"].service_account == f"{prefix}-{name}"
    assert len(given["facts"].service_account) <= 253


def test_what_the_node_can_run_is_passed_on(given: dict[str, Any]) -> None:
    """Native sidecars or not."""
    for native in (True, False):
        Rig(lookups=FakeLookups(native=native)).ask()
        assert given["facts"].native_sidecars is native


def test_injections_are_told_and_counted() -> None:
    """One Event for the owner, one count by mode."""
    rig = Rig()
    response = rig.ask()
    assert response["auditAnnotations"] == {"decision": "injected", "reason": "namespace_label"}
    assert rig.events.told == [("nightly", "namespace_label", "Normal")]
    assert rig.count("injected", "namespace_label", "native") == 1


def test_a_second_pass_changes_and_tells_nothing() -> None:
    """Kubernetes asks again when another webhook changed the pod after us."""
    made = review_kit.pod()
    first = Rig().ask(made)
    rig = Rig()
    again = rig.ask(jsonpatch.apply_patch(made, first["operations"]))
    assert again["operations"] == []
    assert "patchType" not in again
    assert again["auditAnnotations"] == {"second": "untouched"}
    assert rig.events.told == []
