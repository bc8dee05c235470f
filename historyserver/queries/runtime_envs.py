"""Runtime environments: what Ray derives from the serialized one, and the list of them.

Events carry only the serialized runtime environment. Ray's API adds the URIs and the set-up
options, which are functions of it (`ray/_private/utils.py`, `get_runtime_env_info`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from historyserver.compiled.opener import CompiledSession
from historyserver.queries import fitting, snapshots
from historyserver.queries.columns import RUNTIME_ENVS
from historyserver.queries.matching import answer_list
from historyserver.queries.options import ListOptions
from storage import endpoints

DEFAULT_SETUP_TIMEOUT_S = 600

_encode = msgspec.json.Encoder().encode


def info_json(serialized: str) -> bytes:
    """Ray's `runtime_env_info` of a task, as JSON."""
    env = parsed(serialized)
    info: dict[str, Any] = {"serialized_runtime_env": serialized or "{}"}
    uris = _uris(env)
    if uris:
        info["uris"] = uris
    info["runtime_env_config"] = _config(env.get("config"))
    return _encode(info)


def parsed(serialized: str) -> dict[str, Any]:
    """The runtime environment as plain data; {} when there is none or it is not JSON."""
    try:
        return msgspec.json.decode(serialized or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def list_runtime_envs(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/runtime_envs`. Raises `QueryError`."""
    body = snapshots.whole(session, endpoints.RUNTIME_ENVS)
    rows, inner = snapshots.rows_of(body, RUNTIME_ENVS, fitting.RUNTIME_ENVS)
    return answer_list(
        rows,
        options,
        RUNTIME_ENVS,
        sort_key=_latest_first,
        kept=inner,
    )


def _latest_first(row: Any) -> float:
    created = row.get("creation_time_ms")
    return float("-inf") if created is None else -float(created)


def _uris(env: dict[str, Any]) -> dict[str, Any]:
    working_dir = env.get("working_dir")
    modules = env.get("py_modules")
    known = working_dir if isinstance(working_dir, str) else ""
    listed = [uri for uri in modules if isinstance(uri, str)] if isinstance(modules, list) else []
    if not known and not listed:
        return {}
    return {"working_dir_uri": known, "py_modules_uris": listed}


def _config(config: Any) -> dict[str, Any]:
    given = config if isinstance(config, dict) else {}
    return {
        "setup_timeout_seconds": given.get("setup_timeout_seconds", DEFAULT_SETUP_TIMEOUT_S),
        "eager_install": given.get("eager_install", True),
        "log_files": given.get("log_files") or [],
    }
