"""`/clusters` and `/enter_cluster/...`: KubeRay's way to list and choose sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import flask
from werkzeug.exceptions import NotFound

from historyserver.api.answers import answer
from historyserver.api.routing import ApiParts, server_routes
from historyserver.catalogue import SessionEntry
from historyserver.http.current import selected
from historyserver.http.links import session_path
from historyserver.http.selection import cookies_for, with_session

routes = server_routes("clusters")


@routes.get("/clusters")
def clusters(parts: ApiParts) -> flask.Response:
    """All sessions as a bare array, with KubeRay's fields and a few of ours."""
    return answer([_as_kuberay(entry) for entry in parts.list_sessions()])


@routes.get("/enter_cluster/<path:chosen>")
def enter_cluster(parts: ApiParts, chosen: str) -> flask.Response:
    """Choose a session by cookies. Never a redirect: Ray's proxy would follow it and lose them."""
    del chosen  # it is the selection, which access was asked about
    selection = selected()
    if selection is None:
        raise NotFound
    entry = parts.find(selection)
    ref = entry.ref
    concrete = with_session(selection, ref.session)
    response = answer(
        {
            "result": "success",
            "name": selection.name,
            "namespace": selection.namespace,
            "session": ref.session,
            "kind": selection.kind,
            "link": f"/{concrete.path}",
        },
        headers={"Cache-Control": "no-store"},
    )
    for name, value in cookies_for(concrete, cluster=ref.cluster).items():
        if value:
            response.set_cookie(name, value, path="/", samesite="Lax", httponly=True)
        else:
            response.delete_cookie(name, path="/", samesite="Lax", httponly=True)
    return response


def _as_kuberay(entry: SessionEntry) -> dict[str, Any]:
    ref = entry.ref
    started_s = entry.start_ms // 1000
    row: dict[str, Any] = {
        "name": ref.cluster,
        "namespace": ref.namespace,
        "sessionName": ref.session,
        "createTime": datetime.fromtimestamp(started_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "createTimeStamp": started_s,
        "state": entry.state.value,
        "endTimeStamp": entry.end_ms // 1000 if entry.end_ms else None,
        "sizeBytes": entry.size_bytes,
        "link": f"/{session_path(ref)}",
    }
    if ref.owner_kind:
        row |= {"ownerKind": ref.owner_kind, "ownerName": ref.owner_name}
    return row
