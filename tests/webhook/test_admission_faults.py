"""Never harm: whatever fails, the pod comes in as it was, and people are told."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest

from tests.webhook import review_kit
from tests.webhook.admission_rig import Rig, settings
from webhook import admission as module
from webhook.admission import Entry
from webhook.decisions import Reason
from webhook.facts import Needed
from webhook.patches import PatchRefusedError

REFUSING = {"scope": {"onError": "refuse"}}


def _raise(error: Exception) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def test_a_failed_look_up_admits_the_pod_untouched() -> None:
    """With a warning, a metric and an Event."""
    rig = Rig()
    rig.lookups.fails = True
    response = rig.ask()
    assert response["allowed"] is True
    assert response["operations"] == []
    assert "the API server does not answer" in response["warnings"][0]
    assert response["auditAnnotations"] == {"decision": "untouched", "reason": "lookup_failed"}
    assert rig.count("untouched", "lookup_failed") == 1
    assert rig.events.told == [("nightly", "lookup_failed", "Warning")]


@pytest.mark.parametrize("error", [KeyError("containers"), RecursionError(), RuntimeError("x")])
def test_an_exception_admits_the_pod_untouched(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the trace; the warning does not."""
    monkeypatch.setattr(module, "patched", _raise(error))
    rig = Rig()
    response = rig.ask()
    assert (response["allowed"], response["operations"]) == (True, [])
    assert response["warnings"] == [
        "no history is kept of this pod: the webhook failed; its log has the reason"
    ]
    assert rig.count("untouched", "internal_error") == 1
    assert rig.events.told == [("nightly", "internal_error", "Warning")]
    assert any(record.exc_info for record in caplog.records)


def test_a_patch_that_is_refused_admits_the_pod_untouched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The patch's own check counts as a fault of ours."""
    refusal = PatchRefusedError(Reason.SELF_CHECK_FAILED, "a mount without a volume")
    monkeypatch.setattr(module, "patched", _raise(refusal))
    rig = Rig()
    response = rig.ask()
    assert (response["allowed"], response["operations"]) == (True, [])
    assert rig.count("untouched", "self_check_failed") == 1


@pytest.mark.parametrize(
    ("entry", "on_error", "is_allowed"),
    [
        (Entry.NAMESPACE, "refuse", False),
        (Entry.CLUSTER, "refuse", True),
        (Entry.NAMESPACE, "admit", True),
        (Entry.CLUSTER, "admit", True),
    ],
)
def test_only_labelled_namespaces_can_refuse(
    entry: Entry, on_error: str, is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scope.onError: refuse` is about the namespace entry alone."""
    monkeypatch.setattr(module, "decide", _raise(RuntimeError("x")))
    response = Rig(settings(scope={"onError": on_error})).ask(entry=entry)
    assert response["allowed"] is is_allowed
    assert response["operations"] == []
    if not is_allowed:
        assert response["status"]["code"] == 503
        assert "internal_error" in response["status"]["message"]


def test_a_decision_to_leave_a_pod_alone_is_never_a_refusal() -> None:
    """What is no fault of ours is admitted, whatever the settings say."""
    made = review_kit.pod()
    del made["metadata"]["labels"]["ray.io/cluster"], made["metadata"]["ownerReferences"]
    response = Rig(settings(**REFUSING)).ask(made)
    assert response["allowed"] is True
    assert response["auditAnnotations"]["reason"] == "not_a_ray_pod"
    assert "warnings" not in response


@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"kind": {"group": "batch", "version": "v1", "kind": "Job"}},
        {"kind": {"group": "x.io", "version": "v1", "kind": "Pod"}},
        {"subResource": "status"},
        {"object": "text"},
        {"object": None},
    ],
)
def test_what_is_not_the_creation_of_a_pod_is_let_through(changes: dict[str, Any]) -> None:
    """A configuration that sends too much harms nobody."""
    response = Rig(settings(**REFUSING)).ask(**changes)
    assert response["allowed"] is True
    assert response["operations"] == []
    assert response["auditAnnotations"]["reason"] == "not_a_pod_create"


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"labels": [], "ownerReferences": {}}, "spec": []},
        {"metadata": {"labels": {"ray.io/cluster": 7}, "ownerReferences": [1, {"kind": 2}]}},
        {"metadata": {"labels": {"ray.io/cluster": "c", "ray.io/node-type": "head"}}, "spec": {}},
    ],
)
def test_a_pod_of_any_shape_is_answered(made: dict[str, Any]) -> None:
    """Validation of pods is the API server's part."""
    response = Rig().ask(made)
    assert (response["allowed"], response["operations"]) == (True, [])


def test_no_accounts_right_admits_the_pod_untouched() -> None:
    """A pod that names a missing account would be refused by Kubernetes."""
    rig = Rig(settings(serviceAccount={"mode": "perCluster"}))
    rig.accounts.fails = True
    response = rig.ask()
    assert (response["allowed"], response["operations"]) == (True, [])
    assert "serviceaccounts is forbidden" in response["warnings"][0]


def test_look_ups_of_one_review_are_bounded_together() -> None:
    """Each is in time, all together are not: the pod comes in while the API server waits."""
    rig = Rig(settings(serviceAccount={"mode": "perCluster"}), budget_s=0.2)
    rig.lookups.slow_s = 0.15
    started_s = time.monotonic()
    response = rig.ask()
    assert time.monotonic() - started_s < 0.45
    assert (response["allowed"], response["operations"]) == (True, [])
    assert response["auditAnnotations"]["reason"] == "lookup_failed"
    assert rig.accounts.made == []


def test_failing_events_cost_no_answer() -> None:
    """Telling is less than admitting."""
    rig = Rig()
    rig.events.fails = True
    response = rig.ask()
    assert response["allowed"] is True
    assert response["operations"]


def test_the_log_line_has_names_and_numbers_only(caplog: pytest.LogCaptureFixture) -> None:
    """One line per review; nothing of the pod's environment, command or annotations."""
    made = review_kit.pod()
    made["spec"]["containers"][0]["env"].append({"name": "TOKEN", "value": "hush-env"})
    made["metadata"]["annotations"]["x"] = "hush-annotation"
    made["spec"]["containers"][0]["args"] = ["hush-args"]
    with caplog.at_level(logging.DEBUG):
        Rig().ask(made)
    (line,) = (record for record in caplog.records if record.message == "review")
    fields = vars(line)
    assert fields["pod"] == "nightly-gpu-worker-"
    assert fields["decision"] == "injected"
    assert (fields["namespace"], fields["cluster"], fields["node_type"]) == (
        "ml",
        "nightly",
        "worker",
    )
    assert "hush" not in json.dumps({k: str(v) for k, v in fields.items()})


CLAIM = {"name": "history", "persistentVolumeClaim": {"claimName": "ray-history"}}
NEEDS: list[tuple[dict[str, Any], Needed, Reason]] = [
    ({"collector": {"volumes": [CLAIM]}}, Needed.CLAIM, Reason.CLAIM_MISSING),
    (
        {"serviceAccount": {"mode": "fixed", "name": "ray-history"}},
        Needed.ACCOUNT,
        Reason.ACCOUNT_MISSING,
    ),
]


@pytest.mark.parametrize(("tables", "needed", "reason"), NEEDS)
def test_a_pod_never_names_what_is_not_there(
    tables: dict[str, Any], needed: Needed, reason: Reason
) -> None:
    """It would never start. Once it is there, pods get their collector."""
    rig = Rig(settings=settings(**tables))
    rig.lookups.absent.add((needed, review_kit.NAMESPACE, "ray-history"))
    response = rig.ask()
    assert (response["allowed"], response["operations"]) == (True, [])
    assert f"{needed.value} that is called ray-history" in response["warnings"][0]
    assert rig.events.told == [("nightly", reason.value, "Warning")]
    assert rig.accounts.made == []
    rig.lookups.absent.clear()
    assert rig.ask()["operations"]


@pytest.mark.parametrize(("tables", "needed", "reason"), NEEDS)
def test_a_pod_waits_for_what_it_needs_where_that_is_wanted(
    tables: dict[str, Any], needed: Needed, reason: Reason
) -> None:
    """As for the webhook itself: no pod of a labelled namespace goes without a history."""
    rig = Rig(settings=settings(**tables, **REFUSING))
    rig.lookups.absent.add((needed, review_kit.NAMESPACE, "ray-history"))
    response = rig.ask()
    assert response["allowed"] is False
    assert reason.value in response["status"]["message"]
