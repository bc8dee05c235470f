"""One look at everything, and what follows from it: the work of `certs run` at each turn.

Every replica writes the leaf's files. The leader also does what `rotation.plan` says, one step
after the other, each upon a fresh look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Protocol, TypeVar

from certs.cluster import Cluster, ClusterError, Failure
from certs.files import PairFolder
from certs.kept import Kept, Leaf
from certs.leader import Leadership
from certs.looks import Look, looked, write
from certs.metrics import CertsMetrics
from certs.rotation import plan
from certs.state import Policy
from certs.steps import Forge, Publish, Step

_log = logging.getLogger("certs.keeper")

MOST_STEPS = 12
"""Per turn; a whole first installation takes six."""


Result = TypeVar("Result")


class Clock(Protocol):
    """What time it is."""

    def now(self) -> datetime:
        """In UTC."""
        ...

    @property
    def offset_s(self) -> float:
        """Seconds by which the API server is ahead of us."""
        ...


class Keeper:
    """Keeps the certificates. For one thread."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        configurations: Sequence[str],
        policy: Policy,
        forge: Forge,
        folder: PairFolder,
        leadership: Leadership,
        metrics: CertsMetrics,
        clock: Clock,
        may_create_secret: bool = False,
    ) -> None:
        self._cluster = cluster
        self._configurations = configurations
        self._policy = policy
        self._forge = forge
        self._folder = folder
        self._leadership = leadership
        self._metrics = metrics
        self._clock = clock
        self._may_create_secret = may_create_secret
        self._seen: Kept | None = None
        self._told: set[str] = set()
        self.problem = "not looked yet"
        """Why there is nothing to serve; empty when there is."""

    def attend(self) -> bool:
        """One turn; False when something failed, which is told and counted."""
        is_fine = self._tried(self._leadership.attend) is not None
        leading = self._leadership.is_leading()
        is_fine &= self._lead() if leading else self._follow()
        self._metrics.leading(self._leadership.is_leading())
        if is_fine:
            self._told.clear()
            self._metrics.checked(at_s=self._clock.now().timestamp(), offset_s=self._clock.offset_s)
        return is_fine

    def _follow(self) -> bool:
        look = self._tried(lambda: looked(self._cluster, (), self._tell))
        return look is not None and self._serve(look)

    def _lead(self) -> bool:
        failed: set[Step] = set()
        for _ in range(MOST_STEPS):
            look = self._tried(lambda: looked(self._cluster, self._configurations, self._tell))
            if look is None or not self._serve(look):
                return False
            due = plan(look.state, self._clock.now(), self._policy)
            step = next((s for s in due if s not in failed), None)
            if step is None:
                unread = any(c.bundles is None for c in look.state.configurations)
                return not failed and not unread
            if not self._leadership.is_leading():
                return True
            try:
                self._do(step, look)
            except ClusterError as error:
                self._tell(error)
                if error.failure is not Failure.CONFLICT:
                    failed.add(step)
        return not failed

    def _do(self, step: Step, look: Look) -> None:
        if isinstance(step, Publish):
            version = look.configuration(step.configuration).version
            self._cluster.publish(step.configuration, look.state.kept.bundle, version=version)
            if step.is_repair:
                self._metrics.repaired(step.configuration)
        else:
            write(
                self._cluster,
                look,
                step,
                forge=self._forge,
                now=self._clock.now(),
                policy=self._policy,
                may_create=self._may_create_secret,
            )
        extra = {field.name: str(getattr(step, field.name)) for field in fields(step)}
        _log.info("step done", extra={"step": type(step).__name__, **extra})

    def _serve(self, look: Look) -> bool:
        """Take note of what is kept, and write the files."""
        kept = look.state.kept
        for problem in look.problems:
            self._warn("the Secret cannot be read whole", problem)
        self._count(kept)
        self._metrics.kept(kept)
        leaf = kept.leaf
        try:
            if leaf is not None and self._folder.write(leaf):
                _log.info("files written", extra={"leaf": leaf.id, "ends": leaf.not_after})
        except OSError as error:
            self._warn("files not written", str(error))
            self.problem = f"files not written: {error}"
            return False
        self.problem = self._problem(leaf)
        return True

    def _problem(self, leaf: Leaf | None) -> str:
        if leaf is None:
            return "there is no certificate in the Secret yet"
        return "the certificate has expired" if leaf.not_after <= self._clock.now() else ""

    def _count(self, kept: Kept) -> None:
        """Count what is new since the last look, whoever made it."""
        before, self._seen = self._seen, kept
        if before is None:
            return
        known = {authority.id for authority in before.authorities}
        for authority in kept.authorities:
            if authority.id not in known:
                self._metrics.rotated("authority", authority.reason)
        if kept.leaf is not None and (before.leaf is None or kept.leaf.id != before.leaf.id):
            self._metrics.rotated("leaf", kept.leaf.reason)

    def _tried(self, call: Callable[[], Result]) -> Result | None:
        try:
            return call()
        except ClusterError as error:
            self._tell(error)
            return None

    def _tell(self, error: ClusterError) -> None:
        self._metrics.failed(error.failure)
        if error.failure is Failure.CONFLICT:
            _log.info("another writer came first; looking again", extra={"error": str(error)})
        else:
            self._warn("a call to the API server failed", str(error))

    def _warn(self, message: str, problem: str) -> None:
        """Told once until all is well again."""
        if problem not in self._told:
            self._told.add(problem)
            _log.warning(message, extra={"error": problem})
