"""Where Ray is already told to send its events, if anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from webhook.pod_parts import Part, all_containers, items, named, ray_container, text

EXPORT_ADDRESS = "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR"
EVENTS_PATH = "/v1/events"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class EventSink:
    """A place that takes Ray's events."""

    address: str
    port: int = 0
    """The port of this pod where a collector of ours may listen; 0 when the sink is another's."""

    @property
    def is_foreign(self) -> bool:
        """Whether something else than our collector takes the events."""
        return self.port == 0


def event_sink(pod: Part, *, ours: Part | None = None) -> EventSink | None:
    """What the Ray container's environment says; None where it says nothing.

    Foreign is: another host, another path (Ray posts to the address exactly as given and would
    retry for ever), a port below 1024, a value that cannot be seen or is empty, and a port that
    another container of the pod has declared. `ours` is our container, whose ports do not count.
    """
    variable = named(items(ray_container(pod), "env"), EXPORT_ADDRESS)
    if variable is None:
        return None
    address = text(variable, "value")
    if "valueFrom" in variable:
        return EventSink("an address that is not in the pod")
    if not address:
        return EventSink("nowhere")
    port = _own_port(address)
    if port and any(
        each is not ours
        and any(entry.get("containerPort") == port for entry in items(each, "ports"))
        for each in all_containers(pod)
    ):
        port = 0
    return EventSink(address, port)


def _own_port(address: str) -> int:
    try:
        parts = urlsplit(address)
        port = parts.port or 0
    except ValueError:
        return 0
    fits = (
        parts.scheme == "http"
        and parts.hostname in _LOOPBACK
        and parts.path == EVENTS_PATH
        and port >= 1024
    )
    return port if fits else 0
