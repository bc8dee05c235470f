"""One look at everything, and the write that a look led to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from certs.cluster import Cluster, ClusterError, Failure, Secret
from certs.state import Configuration, Policy, State
from certs.steps import Forge, Step, applied
from certs.stored import NewerError, from_data, to_data


@dataclass(frozen=True, slots=True)
class Look:
    """Everything as it was seen."""

    state: State
    secret: Secret | None
    """None when it does not exist."""
    problems: tuple[str, ...]
    """What of the Secret could not be read."""

    def configuration(self, name: str) -> Configuration:
        """One that was seen."""
        return next(c for c in self.state.configurations if c.name == name)


def looked(
    cluster: Cluster, configurations: Sequence[str], on_error: Callable[[ClusterError], None]
) -> Look:
    """Look at configurations, then at the Secret. Raises `ClusterError` when that fails.

    In this order: a bundle made of this look is never older than the version of the
    configuration that its write names. So a leader that slept meanwhile cannot put an old bundle
    over a newer one.
    """
    seen = tuple(_configuration(cluster, name, on_error) for name in configurations)
    secret = cluster.secret()
    try:
        read = from_data(secret.data if secret is not None else {})
    except NewerError as error:
        raise ClusterError(Failure.REFUSED, f"the Secret is of a newer version: {error}") from error
    return Look(State(read.kept, seen), secret, read.problems)


def _configuration(
    cluster: Cluster, name: str, on_error: Callable[[ClusterError], None]
) -> Configuration:
    try:
        return cluster.configuration(name)
    except ClusterError as error:
        on_error(error)
        return Configuration(name, bundles=None)


def write(
    cluster: Cluster,
    look: Look,
    step: Step,
    *,
    forge: Forge,
    now: datetime,
    policy: Policy,
    may_create: bool,
) -> None:
    """Write what is kept after a step, if nobody wrote since the look. Raises `ClusterError`."""
    kept = applied(look.state.kept, step, forge=forge, now=now, policy=policy)
    data = to_data(kept)
    if look.secret is not None:
        cluster.write_secret(data, version=look.secret.version)
    elif may_create:
        cluster.create_secret(data)
    else:
        raise ClusterError(
            Failure.REFUSED, "the Secret does not exist; make it, or allow it by createSecret"
        )
