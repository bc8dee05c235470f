"""How the API's routes become blueprints: functions of the chosen session, or of the server.

A module collects its functions with `session_routes` or `server_routes`; `Routes.blueprint` binds
them to the parts of an app. So a route says what it needs, and nothing looks anything up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, Generic, ParamSpec, TypeVar

import flask

from historyserver.catalogue import SessionEntry
from historyserver.http.selection import Selection
from historyserver.sessions import OpenSession

Given = TypeVar("Given")
Arguments = ParamSpec("Arguments")
View = Callable[Concatenate[Given, Arguments], flask.Response]


@dataclass(frozen=True, kw_only=True)
class ApiParts:
    """What the API is made from. All of them raise what `web.failures` turns into answers."""

    open_session: Callable[[], OpenSession]
    """The session that the current request means, opened once per request."""
    list_sessions: Callable[[], Sequence[SessionEntry]]
    """All sessions, the newest first."""
    find: Callable[[Selection | None], SessionEntry]
    """The session that a selection means."""
    why_not_ready: Callable[[], str]
    """Why the server is not ready, or ''."""
    metrics_page: Callable[[], tuple[bytes, str]]
    """The metrics and their content type."""


@dataclass(frozen=True, slots=True)
class _Route(Generic[Given]):
    rule: str
    method: str
    view: Callable[..., flask.Response]


class Routes(Generic[Given]):
    """The routes of one area of the API."""

    def __init__(self, name: str, give: Callable[[ApiParts], Given]) -> None:
        """Collect routes.

        Args:
            name: of the blueprint.
            give: what every route of the area gets as its first argument.

        """
        self.name = name
        self._give = give
        self._routes: list[_Route[Given]] = []

    def get(self, rule: str) -> Callable[[View[Given, Arguments]], View[Given, Arguments]]:
        """Have a function answer GET (and HEAD) at an address."""
        return self._route(rule, "GET")

    def post(self, rule: str) -> Callable[[View[Given, Arguments]], View[Given, Arguments]]:
        """Have a function answer POST at an address."""
        return self._route(rule, "POST")

    def blueprint(self, parts: ApiParts) -> flask.Blueprint:
        """Bind the routes to the parts of an app."""
        blueprint = flask.Blueprint(self.name, __name__)
        bound: dict[Callable[..., flask.Response], Callable[..., flask.Response]] = {}
        for route in self._routes:
            view = bound.setdefault(route.view, self._bound(route.view, parts))
            blueprint.add_url_rule(route.rule, route.view.__name__, view, methods=(route.method,))
        return blueprint

    def _bound(
        self, view: Callable[..., flask.Response], parts: ApiParts
    ) -> Callable[..., flask.Response]:
        return lambda **arguments: view(self._give(parts), **arguments)

    def _route(
        self, rule: str, method: str
    ) -> Callable[[View[Given, Arguments]], View[Given, Arguments]]:
        def keep(view: View[Given, Arguments]) -> View[Given, Arguments]:
            self._routes.append(_Route(rule, method, view))
            return view

        return keep


def session_routes(name: str) -> Routes[OpenSession]:
    """Routes whose answers depend on the chosen session alone: they get an ETag and are kept."""
    return Routes(name, lambda parts: parts.open_session())


def server_routes(name: str) -> Routes[ApiParts]:
    """Routes about the server itself, or about no session."""
    return Routes(name, lambda parts: parts)


def request_arguments() -> Mapping[str, Sequence[str]]:
    """The request's query: every value of every name, in order.

    Ray's filters are three lists of values that belong together.
    """
    return dict(flask.request.args.lists())
