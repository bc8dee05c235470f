"""Asks Ray's dashboard which node this pod is: the last resort when no file tells the id."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import aiohttp
import msgspec

from storage.layout import is_ray_node_id

log = logging.getLogger(__name__)

PATH = "/api/v0/nodes?limit=10000"
TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024


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


async def ask_node_id(
    url: str, *, pod_ip: str, is_head: bool, headers: Mapping[str, str]
) -> str | None:
    """Ask the dashboard at `url`; None when it does not answer or does not know."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as client,
            client.get(url + PATH, headers=headers) as response,
        ):
            if response.status != 200:
                return None
            body = await response.content.read(MAX_ANSWER_BYTES)
            while chunk := await response.content.read(MAX_ANSWER_BYTES):
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    return None
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        log.debug("no node list", extra={"error": repr(error)})
        return None
    return choose_node(body, pod_ip=pod_ip, is_head=is_head)
