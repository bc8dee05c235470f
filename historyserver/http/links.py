"""Addresses relative to the page that is being answered, so that any prefix in front works.

An ingress may put the server under a path that it strips; only relative links survive that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from historyserver.http.selection import ENVIRON_PATH


def to_root(environ: Mapping[str, Any]) -> str:
    """From the requested page to the server's root: `./`, or `../` as often as needed."""
    path = str(environ.get(ENVIRON_PATH, environ.get("PATH_INFO", "")))
    depth = path.count("/") - 1
    return "../" * depth if depth > 0 else "./"
