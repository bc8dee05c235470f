"""What happens around every request: access, read-only rule, ETag, headers, log line, metrics."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable

import flask

from historyserver.access import AccessRequest, Policy, Purpose
from historyserver.api import answers, areas
from historyserver.api.errors import ApiError, ErrorCode, ReadOnlyError
from historyserver.compiled.schema import SCHEMA_VERSION
from historyserver.http.answer_cache import AnswerOutcome, BodyCache
from historyserver.http.current import select
from historyserver.http.selection import Selection, SelectionSource, parse, parse_enter
from historyserver.metrics import ServerMetrics
from historyserver.sessions import OpenSession
from storage.program.version import installed_version

log = logging.getLogger(__name__)

READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
"""For all answers but those of Ray's UI, which brings its own."""
_FIXED_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_PROBES = frozenset({"/healthz", "/livez", "/readyz", "/readz", "/metrics"})


class RequestCycle:
    """The steps before and after each route. One per app; holds no state of a request."""

    def __init__(
        self,
        *,
        policy: Policy,
        cache: BodyCache,
        metrics: ServerMetrics,
        open_session: Callable[[], OpenSession],
    ) -> None:
        self._policy = policy
        self._open_session = open_session
        self._cache = cache
        self._metrics = metrics
        self._version = installed_version()

    def install(self, app: flask.Flask) -> None:
        """Put the steps around every route of the app."""
        app.before_request(self.before)
        app.after_request(self.after)

    def before(self) -> flask.Response | None:
        """Check access and method, then answer from memory if that can be."""
        flask.g.started_s = time.perf_counter()
        flask.g.request_id = secrets.token_hex(6)
        request = flask.request
        flask.g.access_checked = True  # a bad selection is refused without any data
        selection = select(_named_by_address(request))
        self._check_access(selection)
        if request.method not in READ_METHODS and request.endpoint != "probes.authenticate":
            raise ReadOnlyError
        if not _is_session_answer(request):
            return None
        session = self._open_session()
        base = f"{SCHEMA_VERSION}/{self._version}/{session.etag_base}"
        flask.g.etag = answers.etag_of(base, request.path, request.args.items(multi=True))
        return answers.recall(self._cache, etag=flask.g.etag, request=request)

    def after(self, response: flask.Response) -> flask.Response:
        """Finish the response: compression, ETag, headers, the log line and the counts."""
        if not flask.g.get("access_checked"):
            response = answers.refuse(
                ErrorCode.INTERNAL, "the request did not pass the access check", status=500
            )
        response = answers.finish(
            response, cache=self._cache, etag=flask.g.get("etag"), request=flask.request
        )
        for name, value in _FIXED_HEADERS:
            response.headers[name] = value
        response.headers.setdefault("Content-Security-Policy", PAGE_POLICY)
        self._account(response)
        return response

    def _check_access(self, selection: Selection | None) -> None:
        flask.g.access_checked = False
        request = flask.request
        asked = AccessRequest(
            purpose=_purpose(request, selection),
            method=request.method,
            path=request.path,
            selection=selection,
        )
        decision = self._policy.decide(asked)
        flask.g.access_checked = True
        if not decision.allowed:
            raise ApiError(ErrorCode.FORBIDDEN, decision.reason, status=403)

    def _account(self, response: flask.Response) -> None:
        request = flask.request
        seconds = time.perf_counter() - flask.g.get("started_s", time.perf_counter())
        rule = request.url_rule
        route = str(rule) if rule is not None else "none"
        outcome: AnswerOutcome | None = flask.g.get("answer_outcome")
        self._metrics.request(
            route=route, status=response.status_code, seconds=seconds, outcome=outcome
        )
        chosen = flask.g.get("selection")
        fields = {
            "method": request.method,
            "path": request.path[:300],
            "route": route,
            "status": response.status_code,
            "ms": round(seconds * 1000, 2),
            "bytes": response.content_length,
            "outcome": outcome.value if outcome is not None else "",
            "session": chosen.path if chosen is not None else "",
            "chosen_by": chosen.source.value if chosen is not None else "",
            "code": flask.g.get("error_code", ""),
            "request_id": flask.g.get("request_id", ""),
        }
        level = logging.DEBUG if route in _PROBES else logging.INFO
        log.log(level, "request", extra=fields)


def _is_session_answer(request: flask.Request) -> bool:
    return request.blueprint in areas.NAMES_OF_SESSIONS and request.method in ("GET", "HEAD")


def _named_by_address(request: flask.Request) -> Selection | None:
    """The session of a route that shows one outside of its prefix. Raises `SelectionError`."""
    arguments = request.view_args or {}
    if request.endpoint == "pages.about":
        return parse(**arguments, source=SelectionSource.PATH)
    if request.endpoint == "clusters.enter_cluster":
        return parse_enter(arguments["chosen"].rstrip("/").split("/"))
    return None


def _purpose(request: flask.Request, selection: Selection | None) -> Purpose:
    """What the policy is told: by the route first, since a prefix may stand before any of them."""
    if request.path in _PROBES:
        return Purpose.PROBE
    if request.endpoint == "clusters.clusters":
        return Purpose.LIST
    if selection is not None and selection.source is SelectionSource.PATH:
        return Purpose.SESSION  # all that lies under a session's prefix, Ray's page too
    if request.endpoint == "pages.root":
        return Purpose.LIST
    return Purpose.SESSION if request.blueprint in areas.NAMES else Purpose.PAGE
