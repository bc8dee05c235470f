"""The real `Accounts`: makes a cluster's ServiceAccount and its autoscaler's RoleBinding.

Both belong to the RayCluster, so that they vanish with it. An account of that name that is
there already is used as it is. No right to change or delete accounts is needed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.facts import ClusterFacts, LookupFailedError
from webhook.kube.client import Api, Bounds, KubeError, RefusedError, UnreachableError
from webhook.kube.flights import Flights
from webhook.kube.metrics import AccountOutcome, KubeMetrics
from webhook.kube.wire import METADATA, ObjectMeta, PartialObject
from webhook.settings import ServiceAccount

_log = logging.getLogger("webhook.kube.accounts")

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "ray-history-server"
CLUSTER_LABEL = "ray.io/cluster"

_RBAC = "rbac.authorization.k8s.io"
_KNOWN_S = 30.0
_MOST_KNOWN = 4096
_POLL_S = 0.1
_SHORTEST_S = 0.05


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One object that must exist."""

    kind: str
    path: str
    body: Mapping[str, Any]
    cluster: ClusterFacts

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


class KubeAccounts:
    """Makes what is missing, within the time that a review has left."""

    def __init__(
        self,
        *,
        api: Api,
        rule: ServiceAccount,
        metrics: KubeMetrics,
        bounds: Bounds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`bounds` hold for all calls of one `ensure` together."""
        self._api = api
        self._rule = rule
        self._metrics = metrics
        self._bounds = bounds
        self._clock = clock
        self._known: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()
        self._flights: Flights[tuple[str, ...], AccountOutcome] = Flights()

    def ensure(
        self, *, name: str, cluster: ClusterFacts, pull_secrets: tuple[str, ...], autoscaler: bool
    ) -> None:
        """Make the account (and the autoscaler's RoleBinding) unless it is there.

        Raises `LookupFailedError` with Kubernetes' own words. Never called on a dry run.
        """
        key = (cluster.namespace, name, cluster.uid, "autoscaler" if autoscaler else "")
        if self._clock() < self._known.get(key, 0.0):
            self._metrics.account(AccountOutcome.KNOWN)
            return
        limit_s = self._bounds.limit_s()
        try:
            outcome, _ = self._flights.ask(
                key,
                lambda: self._all(name, cluster, pull_secrets, autoscaler, limit_s),
                wait_s=limit_s,
            )
        except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
            self._metrics.account(AccountOutcome.FAILED)
            what = error.message if isinstance(error, RefusedError) else str(error)
            raise LookupFailedError(
                f"ServiceAccount {cluster.namespace}/{name} cannot be made: "
                + (what or f"no answer within {limit_s:.1f} s")
            ) from error
        self._metrics.account(outcome)
        self._remember(key)

    def _all(
        self,
        name: str,
        cluster: ClusterFacts,
        pull_secrets: tuple[str, ...],
        autoscaler: bool,
        limit_s: float,
    ) -> AccountOutcome:
        deadline_s = time.monotonic() + limit_s
        wanted = [_account(name, cluster, pull_secrets, self._rule)]
        role = self._rule.autoscaler_cluster_role
        if autoscaler and role:
            wanted.append(_binding(name, cluster, role))
        outcomes = [self._there(one, deadline_s) for one in wanted]
        return outcomes[0]

    def _there(self, wanted: _Wanted, deadline_s: float) -> AccountOutcome:
        """Look first: a full quota refuses to make even what is there already."""
        while True:
            meta = self._look(wanted, deadline_s)
            if meta is None:
                if self._make(wanted, deadline_s):
                    return AccountOutcome.MADE
                continue  # Another replica made it just now.
            if not _vanishes(meta, wanted.cluster):
                return AccountOutcome.FOUND
            time.sleep(min(_POLL_S, _left_s(deadline_s, wanted)))

    def _look(self, wanted: _Wanted, deadline_s: float) -> ObjectMeta | None:
        path = f"{wanted.path}/{quote(wanted.name, safe='')}"
        try:
            body = self._api.get(path, accept=METADATA, timeout_s=_left_s(deadline_s, wanted))
        except RefusedError as error:
            if error.status == 404:
                return None
            raise
        return msgspec.json.decode(body, type=PartialObject).metadata

    def _make(self, wanted: _Wanted, deadline_s: float) -> bool:
        """Whether it was made; False when another was faster."""
        if not wanted.cluster.uid:
            # Without an owner it would stay for ever.
            raise UnreachableError(f"RayCluster {wanted.cluster.name} is not known")
        try:
            self._api.post(wanted.path, wanted.body, timeout_s=_left_s(deadline_s, wanted))
        except RefusedError as error:
            if error.status == 409:
                return False
            raise
        extra = {"kind": wanted.kind, "namespace": wanted.cluster.namespace, "object": wanted.name}
        _log.info("made", extra=extra)
        return True

    def _remember(self, key: tuple[str, ...]) -> None:
        now_s = self._clock()
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known = {key: end for key, end in self._known.items() if now_s < end}
            if len(self._known) < _MOST_KNOWN:
                self._known[key] = now_s + _KNOWN_S


def binding_name(account: str) -> str:
    """Name of the RoleBinding by which an account may do the autoscaler's work."""
    return f"{account}-autoscaler"


def _left_s(deadline_s: float, wanted: _Wanted) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s < _SHORTEST_S:
        raise UnreachableError(f"no {wanted.kind} in time")
    return left_s


def _vanishes(meta: ObjectMeta, cluster: ClusterFacts) -> bool:
    """Whether it goes with an older cluster: a pod under it would lose its account.

    The garbage collector deletes what all owners have left, moments after them.
    """
    if meta.deletion_timestamp is not None:
        return True
    owners = meta.owner_references or ()
    return bool(owners and cluster.uid) and all(
        owner.kind == "RayCluster" and owner.name == cluster.name and owner.uid != cluster.uid
        for owner in owners
    )


def _account(
    name: str, cluster: ClusterFacts, pull_secrets: tuple[str, ...], rule: ServiceAccount
) -> _Wanted:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(name, cluster, labels=rule.labels, annotations=rule.annotations),
    }
    if pull_secrets:
        body["imagePullSecrets"] = [{"name": secret} for secret in pull_secrets]
    namespace = quote(cluster.namespace, safe="")
    return _Wanted(
        "ServiceAccount", f"/api/v1/namespaces/{namespace}/serviceaccounts", body, cluster
    )


def _binding(account: str, cluster: ClusterFacts, role: str) -> _Wanted:
    body = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(binding_name(account), cluster, labels={}, annotations={}),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": cluster.namespace}],
    }
    namespace = quote(cluster.namespace, safe="")
    path = f"/apis/{_RBAC}/v1/namespaces/{namespace}/rolebindings"
    return _Wanted("RoleBinding", path, body, cluster)


def _metadata(
    name: str, cluster: ClusterFacts, *, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """`controller` is false: the RayCluster's controller looks after its own objects only."""
    return {
        "name": name,
        "namespace": cluster.namespace,
        "labels": {**labels, MANAGED_BY: MANAGER, CLUSTER_LABEL: cluster.name},
        "annotations": dict(annotations),
        "ownerReferences": [
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "name": cluster.name,
                "uid": cluster.uid,
                "controller": False,
                "blockOwnerDeletion": False,
            }
        ],
    }
