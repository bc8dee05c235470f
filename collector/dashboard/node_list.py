"""Asks Ray's dashboard which node this pod is: the last resort when no file tells the id."""

from __future__ import annotations

import logging

import msgspec

from collector.dashboard.client import DashboardClient
from storage.layout import is_ray_node_id

log = logging.getLogger(__name__)

PATH = "/api/v0/nodes?limit=10000"
TIMEOUT_S = 2.0


class _Node(msgspec.Struct):
    node_id: str = ""
    node_ip: str = ""
    state: str = ""
    is_head_node: bool = False


class _Result(msgspec.Struct):
    result: list[_Node] = []


class _Data(msgspec.Struct):
    result: _Result


class _Answer(msgspec.Struct):
    data: _Data


def choose_node(body: bytes, *, pod_ip: str, is_head: bool) -> str | None:
    """The id of the one node that is alive at this address and has this role.

    None when the body is no such list, or when none or several fit: a wrong id is worse
    than none, since everything of the node is filed under it.
    """
    try:
        nodes = msgspec.json.decode(body, type=_Answer).data.result.result
    except (msgspec.DecodeError, RecursionError):
        return None
    fitting = {
        node.node_id.lower()
        for node in nodes
        if node.state == "ALIVE" and node.node_ip == pod_ip and node.is_head_node == is_head
    }
    fitting = {node_id for node_id in fitting if is_ray_node_id(node_id)}
    return fitting.pop() if len(fitting) == 1 else None


async def ask_node_id(client: DashboardClient, *, pod_ip: str, is_head: bool) -> str | None:
    """Ask the dashboard; None when it does not answer or does not know."""
    answer = await client.get(PATH, timeout_s=TIMEOUT_S)
    if answer.fault is not None or answer.status != 200:
        fault = answer.fault.value if answer.fault is not None else ""
        log.debug("no node list", extra={"fault": fault, "status": answer.status})
        return None
    return choose_node(answer.body, pod_ip=pod_ip, is_head=is_head)
