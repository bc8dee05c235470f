"""The environment that makes Ray send its events to the collector.

Both names of the filter are set. Ray reads `..._EXPOSABLE_EVENT_TYPES`; the name that the GKE
guide and KubeRay give beside it has no reader in Ray 2.53 to 2.60.
"""

from __future__ import annotations

import re
from typing import Any

from webhook.event_sink import EVENTS_PATH, EXPORT_ADDRESS
from webhook.pod_parts import Part, items, text

FILTER = "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES"
GUIDES_FILTER = "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES"
SWITCHES = ("RAY_enable_ray_event", "RAY_enable_core_worker_ray_event_to_aggregator")
"""Needed in every Ray process, drivers included; children inherit them."""

EVENT_TYPES = (
    "TASK_DEFINITION_EVENT",
    "TASK_LIFECYCLE_EVENT",
    "ACTOR_TASK_DEFINITION_EVENT",
    "TASK_PROFILE_EVENT",
    "DRIVER_JOB_DEFINITION_EVENT",
    "DRIVER_JOB_LIFECYCLE_EVENT",
    "ACTOR_DEFINITION_EVENT",
    "ACTOR_LIFECYCLE_EVENT",
    "NODE_DEFINITION_EVENT",
    "NODE_LIFECYCLE_EVENT",
    "PLACEMENT_GROUP_DEFINITION_EVENT",
    "PLACEMENT_GROUP_LIFECYCLE_EVENT",
    "SUBMISSION_JOB_DEFINITION_EVENT",
    "SUBMISSION_JOB_LIFECYCLE_EVENT",
    "PLATFORM_EVENT",
    "WORKER_DEFINITION_EVENT",
    "WORKER_LIFECYCLE_EVENT",
)
"""All types of Ray 2.60. Ray compares names, so those that an older Ray has not do no harm."""

_ALL_SINCE = (2, 55)
"""Ray 2.53 takes `ALL` for the name of a type, and then sends nothing."""
_RAY_IMAGE = re.compile(r"(?:^|/)rayproject/ray(?:-ml|-llm)?:(\d+)\.(\d+)\.\d")


def event_types(image: str) -> str:
    """The filter's value: `ALL` where the image is Ray's own and new enough, else every type.

    Only Ray's own images and mirrors of them say the version by their tag; a wrong `ALL` would
    lose all events, the list loses only types that are not invented yet.
    """
    match = _RAY_IMAGE.search(image)
    if match is not None and (int(match[1]), int(match[2])) >= _ALL_SINCE:
        return "ALL"
    return _EVERY_TYPE


_EVERY_TYPE = ",".join(EVENT_TYPES)


def event_env(ray: Part, *, port: int) -> list[dict[str, Any]]:
    """What to add to the Ray container: only names that it has not.

    Variables of `envFrom` cannot be seen from here; the ones added win over those.
    """
    known = {variable.get("name"): variable for variable in items(ray, "env")}
    types = known.get(FILTER)
    value = (
        event_types(text(ray, "image")) if types is None else text(types, "value") or _EVERY_TYPE
    )
    wanted = {
        **dict.fromkeys(SWITCHES, "true"),
        EXPORT_ADDRESS: f"http://localhost:{port}{EVENTS_PATH}",
        FILTER: value,
        GUIDES_FILTER: value,
    }
    return [{"name": name, "value": wanted[name]} for name in wanted if name not in known]


def driver_env(container: Part, *, ray: Part) -> list[dict[str, Any]]:
    """What to add to another container of the pod that may run a Ray driver.

    That is one of the Ray container's own image; the autoscaler is no driver.
    """
    if container.get("image") != ray.get("image") or container.get("name") == "autoscaler":
        return []
    known = {variable.get("name") for variable in items(container, "env")}
    return [{"name": name, "value": "true"} for name in SWITCHES if name not in known]


def silent_warning(ray: Part) -> str:
    """A warning when the pod itself turns off what the history is made of."""
    for variable in items(ray, "env"):
        name, value = variable.get("name"), variable.get("value")
        if name in SWITCHES and isinstance(value, str) and value.lower() in ("0", "false"):
            return f"{name} is {value} on the Ray container: the history lacks tasks and actors"
    return ""
