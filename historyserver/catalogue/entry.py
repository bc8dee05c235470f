"""One session as the list shows it."""

from __future__ import annotations

from dataclasses import dataclass

from historyserver.folding.session_state import SessionState
from historyserver.reading.state import StateReason
from storage.layout import CLUSTER_KIND, SessionRef

SessionId = tuple[str, str, str]
"""(namespace, cluster, session): what makes a session one, whoever owns its cluster."""


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """What can be told of a session without walking through its content."""

    ref: SessionRef
    state: SessionState
    reason: StateReason
    """Which sign told the state."""
    start_ms: int
    end_ms: int | None
    """None while it runs and where nobody stored it (KubeRay does not). For an unclean session
    the last sign of life."""
    size_bytes: int | None
    """Stored bytes; None where no collector summed them up."""

    @property
    def id(self) -> SessionId:
        """What makes it one session."""
        return session_id(self.ref)

    @property
    def duration_ms(self) -> int | None:
        """How long it lasted, where the end is known."""
        return None if self.end_ms is None else max(0, self.end_ms - self.start_ms)

    def answers_to(self) -> list[tuple[str, str, str]]:
        """The (namespace, kind, name) that it can be asked by: the cluster's, and the owner's."""
        names = [(self.ref.namespace, CLUSTER_KIND, self.ref.cluster)]
        if self.ref.owner_kind:
            names.append((self.ref.namespace, self.ref.owner_kind, self.ref.owner_name))
        return names


def session_id(ref: SessionRef) -> SessionId:
    """The id of the session that the ref means, with or without its owner."""
    return ref.namespace, ref.cluster, ref.session
