"""Which session a request means: the only place that knows.

Three ways to say it, the first that is there wins:

1. the path prefix `/s/{namespace}/{kind}/{name}/{session}/`: links that can be shared, several
   tabs on several sessions, no cookie. `SelectionPrefix` moves it from `PATH_INFO` to
   `SCRIPT_NAME`, so every route below works under any prefix without knowing of it;
2. the header `x-ray-history-session: namespace/kind/name/session`, for programs. It stands
   before the cookies because it was said for this very request;
3. the cookies that KubeRay's server sets (`cluster_name`, `cluster_namespace`, `session_name`,
   `owner_kind`, `owner_name`), for Ray's dashboard with `--proxy-server-url`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from storage.layout import (
    CLUSTER_KIND,
    OWNER_KINDS,
    is_cluster_name,
    is_namespace,
    is_session_name,
)

HEADER = "x-ray-history-session"
ENVIRON_KEY = "rayhistory.selection"
ENVIRON_ERROR = "rayhistory.selection_error"
ENVIRON_PATH = "rayhistory.path"
"""The requested path before the prefix was moved."""
ENVIRON_NO_SLASH = "rayhistory.no_slash"

KINDS = (CLUSTER_KIND, *OWNER_KINDS)
LATEST = "latest"
LIVE = "live"

_WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


class SelectionSource(Enum):
    """How the request said which session it means."""

    PATH = "path"
    HEADER = "header"
    COOKIE = "cookie"


class SelectionError(ValueError):
    """The request names a session in a form that cannot be one."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The session that a request asks for; it need not exist."""

    namespace: str
    kind: str
    name: str
    session: str
    """A session name, `latest` or `live`."""
    source: SelectionSource = SelectionSource.PATH

    @property
    def path(self) -> str:
        """The page of this session, relative to the server's root."""
        return f"s/{self.namespace}/{self.kind}/{self.name}/{self.session}/"


def parse(
    namespace: str, kind: str, name: str, session: str, *, source: SelectionSource
) -> Selection:
    """Check the four parts. Raises `SelectionError`, which names the bad one."""
    kind = kind.lower()
    if kind not in KINDS:
        raise SelectionError(f"the kind must be one of {', '.join(KINDS)}, not {_shown(kind)}")
    if not is_namespace(namespace):
        raise SelectionError(f"the namespace {_shown(namespace)} is not a Kubernetes name")
    if not is_cluster_name(name):
        raise SelectionError(f"the name {_shown(name)} is not a Kubernetes name")
    if session not in (LATEST, LIVE) and not is_session_name(session):
        raise SelectionError(
            f"the session {_shown(session)} is not a session name, {LATEST!r} or {LIVE!r}"
        )
    return Selection(namespace, kind, name, session, source)


def parse_enter(parts: list[str]) -> Selection:
    """Read the segments after `/enter_cluster/` in the forms of all KubeRay releases.

    `{ns}/{kind}/{name}[/{session}]` since 1.7, `{ns}/{name}/{session}` in 1.6, `{ns}/{name}` in
    some nightlies. The two of three segments collide; a session starts with `session_`, which
    no Kubernetes name can (it has an underscore), and a kind is one of three words.
    """
    source = SelectionSource.PATH
    match parts:
        case [namespace, name]:
            return parse(namespace, KINDS[0], name, LATEST, source=source)
        case [namespace, kind, name] if kind.lower() in KINDS and not name.startswith("session_"):
            return parse(namespace, kind, name, LATEST, source=source)
        case [namespace, name, session]:
            return parse(namespace, KINDS[0], name, session, source=source)
        case [namespace, kind, name, session]:
            return parse(namespace, kind, name, session, source=source)
    raise SelectionError(
        "use /enter_cluster/{namespace}/{kind}/{name}[/{session}] "
        "or /enter_cluster/{namespace}/{name}/{session}"
    )


def of_request(
    environ: Mapping[str, Any], *, headers: Mapping[str, str], cookies: Mapping[str, str]
) -> Selection | None:
    """The request's selection, or None when it makes none. Raises `SelectionError`."""
    error = environ.get(ENVIRON_ERROR)
    if error is not None:
        raise SelectionError(str(error))
    chosen = environ.get(ENVIRON_KEY)
    if isinstance(chosen, Selection):
        return chosen
    header = headers.get(HEADER)
    if header:
        return _of_header(header)
    return _of_cookies(cookies)


def cookies_for(selection: Selection, *, cluster: str) -> dict[str, str]:
    """The cookies that mean this selection, named as KubeRay's server names them.

    An empty value clears what an earlier choice left.
    """
    owned = selection.kind != KINDS[0]
    return {
        "cluster_name": cluster,
        "cluster_namespace": selection.namespace,
        "session_name": selection.session,
        "owner_kind": selection.kind if owned else "",
        "owner_name": selection.name if owned else "",
    }


def with_session(selection: Selection, session: str) -> Selection:
    """The same cluster, another session: what `latest` came out to be."""
    return replace(selection, session=session)


def _of_header(header: str) -> Selection:
    parts = header.strip().strip("/").split("/")
    if len(parts) != 4:
        raise SelectionError(f"the header {HEADER} must be namespace/kind/name/session")
    return parse(*parts, source=SelectionSource.HEADER)


def _of_cookies(cookies: Mapping[str, str]) -> Selection | None:
    cluster = cookies.get("cluster_name", "")
    namespace = cookies.get("cluster_namespace", "")
    session = cookies.get("session_name", "")
    if not (cluster and namespace and session):
        return None
    kind = cookies.get("owner_kind", "")
    name = cookies.get("owner_name", "")
    if not (kind and name):
        kind, name = KINDS[0], cluster
    return parse(namespace, kind, name, session, source=SelectionSource.COOKIE)


def _shown(value: str) -> str:
    return repr(value if len(value) <= 80 else value[:77] + "...")


class SelectionPrefix:
    """WSGI middleware: `/s/ns/kind/name/session/rest` is seen below as `/rest`."""

    def __init__(self, app: _WsgiApp) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        root = environ.get("SCRIPT_NAME", "")
        path = environ.get("PATH_INFO", "")
        environ[ENVIRON_PATH] = path
        if path.startswith("/s/"):
            self._move(environ, root, path)
        return self._app(environ, start_response)

    @staticmethod
    def _move(environ: dict[str, Any], root: str, path: str) -> None:
        parts = path.split("/", 6)[2:]
        session_named = len(parts) >= 4 and parts[3] != ""
        chosen = [*parts[:3], parts[3] if session_named else LATEST]
        try:
            environ[ENVIRON_KEY] = parse(*_exactly_four(chosen), source=SelectionSource.PATH)
        except SelectionError as error:
            environ[ENVIRON_ERROR] = str(error)
        environ[ENVIRON_NO_SLASH] = len(parts) < 5
        prefix = "/".join(parts[:4] if session_named else parts[:3])
        environ["SCRIPT_NAME"] = f"{root}/s/{prefix}"
        environ["PATH_INFO"] = "/" + (parts[4] if len(parts) == 5 else "")


def _exactly_four(parts: list[str]) -> tuple[str, str, str, str]:
    if len(parts) != 4:
        raise SelectionError("use /s/{namespace}/{kind}/{name}/{session}/")
    return parts[0], parts[1], parts[2], parts[3]
