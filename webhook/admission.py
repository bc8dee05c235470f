"""From a review's bytes to its answer: decode, look up, decide, patch, account for it.

Never harms: whatever fails, the pod is admitted as it came, with a warning, a metric, an Event
and a log line; only where the settings say so (`scope.onError: refuse`), a pod of a labelled
namespace is refused instead. All look-ups of one review together are bounded in time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from webhook import reviews
from webhook.account_choice import AccountChoice, choose_account, has_autoscaler, pull_secrets
from webhook.budget import REVIEW_S, is_spent, review_budget
from webhook.decisions import Decision, Reason, decide
from webhook.facts import (
    Accounts,
    ClusterFacts,
    LookupFailedError,
    Lookups,
    NamespaceFacts,
    Needed,
    Pod,
    PodFacts,
)
from webhook.metrics import Verdict, WebhookMetrics
from webhook.patches import Patched, PatchRefusedError, patched
from webhook.pod_cluster import cluster_of, node_type_of, pod_name
from webhook.pod_parts import part, text
from webhook.reviews import ReviewRequest
from webhook.settings import FailureMode, Settings

_log = logging.getLogger("webhook.admission")

FAULTS = frozenset(
    {
        Reason.LOOKUP_FAILED,
        Reason.CLAIM_MISSING,
        Reason.ACCOUNT_MISSING,
        Reason.TOO_LARGE,
        Reason.SELF_CHECK_FAILED,
        Reason.INTERNAL_ERROR,
    }
)
"""Reasons that are ours, not the pod's: with `onError: refuse` they keep a pod out."""
REPORTED = FAULTS | {
    Reason.FOREIGN_EVENT_SINK,
    Reason.NAME_TAKEN,
    Reason.WINDOWS,
    Reason.HOST_NETWORK,
    Reason.NO_FREE_PORT,
}
"""Reasons why a pod that was meant has no collector: its owner gets an Event."""


class Entry(StrEnum):
    """Which entry of the webhook configuration asks."""

    NAMESPACE = "namespace"
    """Pods of labelled namespaces."""
    CLUSTER = "cluster"
    """Pods of other namespaces, whose RayCluster may have the annotation."""


class Events(Protocol):
    """Tells the owner of a RayCluster. Returns at once, never raises, drops when there are many."""

    def record(self, cluster: ClusterFacts, reason: str, message: str, kind: str) -> None:
        """Record a Kubernetes Event on the RayCluster; `kind` is `Normal` or `Warning`."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one pod."""

    decision: Decision
    cluster: ClusterFacts | None = None
    patch: Patched | None = None
    warnings: tuple[str, ...] = ()

    @property
    def mode(self) -> str:
        """`native` or `classic` where a collector was added."""
        return self.patch.mode if self.patch is not None else "none"


class Admission:
    """Answers reviews. Safe for threads; holds no state of a review."""

    def __init__(
        self,
        *,
        settings: Settings,
        lookups: Lookups,
        accounts: Accounts,
        metrics: WebhookMetrics,
        events: Events,
        budget_s: float = REVIEW_S,
    ) -> None:
        self._budget_s = budget_s
        self._settings = settings
        self._lookups = lookups
        self._accounts = accounts
        self._metrics = metrics
        self._events = events

    def review(self, body: bytes, entry: Entry) -> bytes:
        """Answer one review. Raises `MalformedReviewError` only: then there is no uid."""
        started_s = time.perf_counter()
        with self._metrics.in_flight.track_inprogress():
            request = reviews.decode(body)
            try:
                with review_budget(self._budget_s):
                    outcome = self._outcome(request, entry)
                return self._answer(request, entry, outcome, started_s)
            except Exception:
                _log.exception("a review failed", extra={"uid": request.uid})
                text = "the webhook failed; its log has the reason"
                cluster = cluster_of(request.object, request.namespace)
                outcome = _Outcome(_without(Reason.INTERNAL_ERROR, text), cluster)
                return self._answer(request, entry, outcome, started_s)

    def too_large(self, head: bytes, entry: Entry) -> bytes:
        """Answer a review of which only the beginning was read. Raises as `review`."""
        started_s = time.perf_counter()
        request = ReviewRequest(uid=reviews.uid_of_head(head))
        text = f"the review is larger than {self._settings.listen.max_review_bytes} bytes"
        outcome = _Outcome(_without(Reason.TOO_LARGE, text))
        return self._answer(request, entry, outcome, started_s)

    def _outcome(self, request: ReviewRequest, entry: Entry) -> _Outcome:
        pod = request.object
        if (request.kind.kind, request.kind.group) != ("Pod", "") or request.sub_resource:
            return _Outcome(_without(Reason.NOT_A_POD_CREATE, "not a pod"))
        if request.operation != "CREATE" or not isinstance(pod, dict):
            return _Outcome(_without(Reason.NOT_A_POD_CREATE, "not the creation of a pod"))
        named = cluster_of(pod, request.namespace)
        namespace = self._namespace(request.namespace, entry)
        try:
            return self._decided(request, pod, named, namespace)
        except LookupFailedError as error:
            decision = decide(pod, namespace=namespace, cluster=None, settings=self._settings)
            if decision.inject or decision.reason is Reason.NOT_OPTED_IN:
                decision = _without(Reason.LOOKUP_FAILED, str(error))
            return _Outcome(decision, named, warnings=decision.warnings)
        except PatchRefusedError as error:
            return _Outcome(_without(error.reason, str(error)), named)

    def _decided(
        self,
        request: ReviewRequest,
        pod: Pod,
        named: ClusterFacts | None,
        namespace: NamespaceFacts,
    ) -> _Outcome:
        cluster = None
        if named is not None:
            cluster = self._lookups.cluster(
                namespace=named.namespace, name=named.name, uid=named.uid
            )
        decision = decide(pod, namespace=namespace, cluster=cluster, settings=self._settings)
        cluster = cluster or named
        if not decision.inject or cluster is None:
            return _Outcome(decision, cluster, warnings=decision.warnings)
        return self._injected(request, pod, cluster, decision)

    def _injected(
        self, request: ReviewRequest, pod: Pod, cluster: ClusterFacts, decision: Decision
    ) -> _Outcome:
        account = choose_account(
            pod,
            cluster=cluster,
            rule=self._settings.service_account,
            dry_run=bool(request.dry_run),
        )
        _in_time()
        self._check_needs(request.namespace, account)
        _in_time()
        native = self._lookups.native_sidecars()
        facts = PodFacts(
            namespace=request.namespace,
            cluster=cluster,
            native_sidecars=native,
            service_account=account.name,
        )
        # Patched first: no account is made for a pod that cannot have a collector.
        patch = patched(pod, facts=facts, settings=self._settings)
        self._make(account, pod, cluster)
        warnings = (*decision.warnings, *patch.warnings)
        if account.warning:
            warnings = (*warnings, account.warning)
        return _Outcome(decision, cluster, patch, warnings)

    def _check_needs(self, namespace: str, account: AccountChoice) -> None:
        """A pod that names what is not there never starts: better without a history."""
        if account.name and not account.make:
            self._check(Needed.ACCOUNT, Reason.ACCOUNT_MISSING, namespace, account.name)
        for volume in self._settings.collector.volumes:
            name = text(part(volume, "persistentVolumeClaim"), "claimName")
            if name:
                self._check(Needed.CLAIM, Reason.CLAIM_MISSING, namespace, name)

    def _check(self, needed: Needed, reason: Reason, namespace: str, name: str) -> None:
        if not self._lookups.exists(needed, namespace=namespace, name=name):
            raise PatchRefusedError(
                reason,
                f"the namespace has none of the {needed.value} that is called {name}: make it, "
                "then new pods keep their history",
            )

    def _make(self, account: AccountChoice, pod: Pod, cluster: ClusterFacts) -> None:
        if not account.make:
            return
        _in_time()
        self._accounts.ensure(
            name=account.name,
            cluster=cluster,
            pull_secrets=pull_secrets(pod, added=self._settings.collector.image_pull_secrets),
            autoscaler=has_autoscaler(pod),
        )

    def _namespace(self, name: str, entry: Entry) -> NamespaceFacts:
        """The namespace as the API server saw it: its selector chose the entry, just now.

        The watch's copy may be a moment older, or missing; it never overrules the entry.
        """
        try:
            known = self._lookups.namespace(name)
        except LookupFailedError:
            known = None
        facts = known or NamespaceFacts(name)
        if entry is not Entry.NAMESPACE:
            return facts
        label = self._settings.scope.label
        if facts.labels.get(label) == "enabled":
            return facts
        return NamespaceFacts(name, {**facts.labels, label: "enabled"}, facts.annotations)

    def _answer(
        self, request: ReviewRequest, entry: Entry, outcome: _Outcome, started_s: float
    ) -> bytes:
        decision = outcome.decision
        verdict = self._verdict(outcome, entry)
        audit = {"decision": verdict.value, "reason": decision.reason.value}
        if decision.reason is Reason.ALREADY_INJECTED:
            # The API server asks again when others changed the pod after us, and complains in
            # its log about an annotation that is given twice.
            audit = {"second": verdict.value}
        if verdict is Verdict.REFUSED:
            message = f"no collector can be added ({decision.reason.value}): {decision.message}"
            answer = reviews.refused(request.uid, message=message, audit=audit)
        else:
            warnings = outcome.warnings
            if decision.reason in FAULTS:
                warnings = (f"no history is kept of this pod: {decision.message}", *warnings)
            operations = outcome.patch.operations if outcome.patch is not None else ()
            answer = reviews.allowed(
                request.uid, operations=operations, warnings=warnings, audit=audit
            )
        self._account_for(request, entry, outcome, verdict, time.perf_counter() - started_s)
        return answer

    def _verdict(self, outcome: _Outcome, entry: Entry) -> Verdict:
        if outcome.patch is not None:  # a second pass may find nothing to do
            return Verdict.INJECTED if outcome.patch.operations else Verdict.UNTOUCHED
        refuses = self._settings.scope.on_error is FailureMode.REFUSE
        if refuses and entry is Entry.NAMESPACE and outcome.decision.reason in FAULTS:
            return Verdict.REFUSED
        return Verdict.UNTOUCHED

    def _account_for(
        self,
        request: ReviewRequest,
        entry: Entry,
        outcome: _Outcome,
        verdict: Verdict,
        seconds: float,
    ) -> None:
        """Metric, log line and Event; what fails here does not cost the answer."""
        reason = outcome.decision.reason
        try:
            self._metrics.admission(
                verdict=verdict, reason=reason.value, mode=outcome.mode, seconds=seconds
            )
            level = logging.WARNING if reason in FAULTS else logging.INFO
            if _log.isEnabledFor(level):
                fields = _fields(request, entry, outcome, verdict, seconds)
                _log.log(level, "review", extra=fields)
            if not request.dry_run:
                self._tell_owner(outcome, verdict)
        except Exception:
            _log.exception("a review could not be accounted for", extra={"uid": request.uid})

    def _tell_owner(self, outcome: _Outcome, verdict: Verdict) -> None:
        decision, cluster = outcome.decision, outcome.cluster
        if cluster is None or not cluster.name:
            return
        if verdict is Verdict.INJECTED:
            self._events.record(cluster, decision.reason.value, decision.message, "Normal")
        elif decision.reason in REPORTED:
            self._events.record(cluster, decision.reason.value, decision.message, "Warning")


def _without(reason: Reason, message: str) -> Decision:
    return Decision(inject=False, reason=reason, message=message)


def _in_time() -> None:
    if is_spent():
        raise LookupFailedError("the API server answered too slowly")


def _fields(
    request: ReviewRequest, entry: Entry, outcome: _Outcome, verdict: Verdict, seconds: float
) -> Mapping[str, Any]:
    """The log line's fields: names and numbers, nothing of the pod's content."""
    patch = outcome.patch
    return {
        "uid": request.uid,
        "entry": entry.value,
        "namespace": request.namespace,
        "pod": pod_name(request.object) or request.uid,
        "cluster": outcome.cluster.name if outcome.cluster is not None else "",
        "node_type": node_type_of(request.object),
        "dry_run": bool(request.dry_run),
        "decision": verdict.value,
        "reason": outcome.decision.reason.value,
        "mode": outcome.mode,
        "operations": len(patch.operations) if patch is not None else 0,
        "events_port": patch.events_port if patch is not None else 0,
        "warnings": len(outcome.warnings),
        "ms": round(seconds * 1000, 2),
    }
