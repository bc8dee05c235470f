"""Finds collectors that are in a pod already: ours, KubeRay's, and those put there by hand."""

from __future__ import annotations

import json
import posixpath
import re

from webhook.overrides import PREFIX
from webhook.pod_parts import Part, all_containers, argv_of, items, part, text

STATUS = PREFIX + "status"
"""Annotation that says what was added."""
NATIVE_NAME = "ray-history-collector"
"""The container that KubeRay 1.7 adds by itself."""

_ROLE_WORDS = re.compile(r"--(role|ray-cluster-name|ray-root-dir|events-port)(=|\s|$)")
_PROGRAM = re.compile(r"(?:^|[\s/;&|])collector(?:\s|$)")


def our_container(pod: Part) -> Part | None:
    """The collector that an earlier pass of this webhook added.

    Both must be there: the status annotation and the container that it names. A template may
    have copied the annotation from elsewhere, and a user may have a container of our name.
    """
    status = text(part(part(pod, "metadata"), "annotations"), STATUS)
    if not status:
        return None
    try:
        name = json.loads(status)["container"]
    except (ValueError, TypeError, KeyError):
        return None
    return next((each for each in all_containers(pod) if each.get("name") == name), None)


def native_collector(pod: Part) -> bool:
    """Whether KubeRay added its own collector."""
    return any(container.get("name") == NATIVE_NAME for container in all_containers(pod))


def user_collector(pod: Part) -> str:
    """The name of a container that somebody made a collector, as the GKE guide shows; or empty.

    It is called so (name, program or image) and is told its part as collectors are. Both, since
    other programs are called collectors too, OpenTelemetry's for one.
    """
    for position, container in enumerate(all_containers(pod)):
        if position and _is_called_collector(container) and _is_told_its_part(container):
            return text(container, "name")
    return ""


def _is_called_collector(container: Part) -> bool:
    image = posixpath.basename(text(container, "image").partition("@")[0]).partition(":")[0]
    if "collector" in image or "collector" in text(container, "name"):
        return True
    return any(_PROGRAM.search(word) for word in argv_of(container))


def _is_told_its_part(container: Part) -> bool:
    if any(variable.get("name") == "RAY_ROLE" for variable in items(container, "env")):
        return True
    return any(_ROLE_WORDS.search(word) for word in argv_of(container))
