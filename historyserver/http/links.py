"""Addresses of sessions, and how a page reaches the server's root from wherever it is.

All are relative to the page that is being answered, so that any prefix in front works.

An ingress may put the server under a path that it strips; only relative links survive that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from historyserver.http.selection import ENVIRON_PATH
from storage.layout import SessionRef


def to_root(environ: Mapping[str, Any]) -> str:
    """From the requested page to the server's root: `./`, or `../` as often as needed."""
    path = str(environ.get(ENVIRON_PATH, environ.get("PATH_INFO", "")))
    depth = path.count("/") - 1
    return "../" * depth if depth > 0 else "./"


def session_path(ref: SessionRef) -> str:
    """The page of a session (Ray's dashboard), relative to the server's root."""
    return f"s/{_place(ref)}"


def about_path(ref: SessionRef) -> str:
    """The page of a session's facts, relative to the server's root."""
    return f"about/{_place(ref)}"


def _place(ref: SessionRef) -> str:
    return f"{ref.namespace}/{ref.kind}/{ref.name}/{ref.session}/"
