"""What a request says of the body it wants: compressed, and only when it changed."""

from __future__ import annotations

import flask


def accepts_gzip(request: flask.Request) -> bool:
    """Whether the client takes gzip (any quality but 0)."""
    return request.accept_encodings["gzip"] > 0


def is_fresh(etag: str, request: flask.Request) -> bool:
    """Whether the client has the body of this ETag already; then 304 is the answer."""
    asked = request.headers.get("If-None-Match", "")
    return etag in {part.strip() for part in asked.split(",")} or asked.strip() == "*"
