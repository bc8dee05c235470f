"""Ports of the collector: all containers of a pod share one network."""

from __future__ import annotations

import re

from webhook.pod_parts import Part, all_containers, items, ray_container, start_options

TRIES = 16
_OPTION = re.compile(r"--[a-z-]*port(?:=|\s+)[\"']?(\d{1,5})\b")


def taken_ports(pod: Part, *, ours: Part | None = None) -> set[int]:
    """Ports that other containers declare, and those in the options of `ray start`."""
    taken = {
        entry.get("containerPort", 0)
        for container in all_containers(pod)
        if container is not ours
        for entry in items(container, "ports")
    }
    return taken | {int(match[1]) for match in start_options(ray_container(pod), _OPTION)}


def free_port(first: int, *, taken: set[int]) -> int:
    """The first free one of 16; 0 when there is none."""
    last = min(first + TRIES, 65536)
    return next((port for port in range(first, last) if port not in taken), 0)
