"""From plain data to an HTTP answer: JSON, ETag, gzip and a bounded memory of made bodies.

A session's answer depends on the compiled session, the path and the query only. So the ETag is
known before anything is asked of the session: a poll that has the answer gets 304 in well under
2 ms, and another reader gets the body as it was made (and compressed) for the first.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import flask
import msgspec

from historyserver.api.errors import ErrorCode, error_body
from historyserver.http.answer_cache import AnswerOutcome, BodyCache, StoredBody
from historyserver.http.conditions import accepts_gzip, is_fresh

COMPRESS_FROM_BYTES = 1024
"""Below this a gzip header and the time cost more than they save."""
IGNORED_QUERY = frozenset({"timeout", "server_timeout_multiplier"})
"""What the clients of Ray add and what changes no answer here."""

_encoder = msgspec.json.Encoder()


def answer(
    payload: Any,
    *,
    status: int = 200,
    content_type: str = "application/json; charset=utf-8",
    headers: Mapping[str, str] | None = None,
) -> flask.Response:
    """Make the response.

    Args:
        payload: what msgspec can encode as JSON; `bytes` are sent as they are; an iterator of
            `bytes` is streamed (compressed on the way, never remembered).
        status: an error may never be 404 on an API path (see `api.errors`).
        content_type: of the body.
        headers: more of them, as Content-Disposition.

    """
    if isinstance(payload, bytes | Iterator):
        response = flask.Response(payload, status=status)
    else:
        response = flask.Response(_encoder.encode(payload), status=status)
    response.headers["Content-Type"] = content_type
    for name, value in (headers or {}).items():
        response.headers[name] = value
    return response


def refuse(code: ErrorCode, message: str, *, status: int = 400) -> flask.Response:
    """Make the response of an error in the one shape (see `api.errors`)."""
    response = answer(error_body(code, message), status=status)
    response.headers["Cache-Control"] = "no-store"
    return response


def etag_of(etag_base: str, path: str, query: Iterable[tuple[str, str]]) -> str:
    """The weak ETag of an answer.

    Args:
        etag_base: changes with the compiled session, its schema and this server's version.
        path: below the session's prefix.
        query: pairs in the order of the request; repeated names keep theirs (Ray's filters are
            three parallel lists), different names may stand in any order.

    """
    digest = hashlib.blake2b(digest_size=12)
    kept = sorted(((k, v) for k, v in query if k not in IGNORED_QUERY), key=lambda pair: pair[0])
    for part in (etag_base, path, *(text for pair in kept for text in pair)):
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return f'W/"{digest.hexdigest()}"'


def recall(cache: BodyCache, *, etag: str, request: flask.Request) -> flask.Response | None:
    """Answer from the ETag alone (304) or from memory; None when it must be made."""
    if is_fresh(etag, request):
        flask.g.answer_outcome = AnswerOutcome.NOT_MODIFIED
        response = flask.Response(status=304)
        response.headers.pop("Content-Type", None)
        return response
    stored = cache.get((etag, accepts_gzip(request)))
    if stored is None:
        flask.g.answer_outcome = AnswerOutcome.MADE
        return None
    flask.g.answer_outcome = AnswerOutcome.REMEMBERED
    response = flask.Response(stored.body)
    for name, value in stored.headers:
        response.headers[name] = value
    return response


def finish(
    response: flask.Response, *, cache: BodyCache, etag: str | None, request: flask.Request
) -> flask.Response:
    """Compress, remember and mark what a route has made. The last step of every request."""
    if response.direct_passthrough or "Cache-Control" in response.headers:
        return response
    response.headers["Vary"] = "Accept-Encoding, Cookie, X-Ray-History-Session"
    response.headers["Cache-Control"] = "private, no-cache"
    if etag is not None and response.status_code in (200, 304):
        response.headers["ETag"] = etag
    if response.status_code == 304 or request.method == "HEAD":
        return response
    if flask.g.get("answer_outcome") is AnswerOutcome.REMEMBERED:
        return response
    compressed = accepts_gzip(request)
    if compressed:
        _compress(response)
    if etag is not None and response.status_code == 200 and not response.is_streamed:
        kept = ("Content-Type", "Content-Encoding", "Content-Disposition")
        headers = tuple((k, v) for k, v in response.headers.items() if k in kept)
        cache.put((etag, compressed), StoredBody(response.get_data(), headers))
    return response


def _compress(response: flask.Response) -> None:
    if "Content-Encoding" in response.headers or response.status_code in (204, 206, 304):
        return
    if response.is_streamed:
        response.response = _gzip_stream(response.iter_encoded())
        response.headers["Content-Encoding"] = "gzip"
        response.headers.pop("Content-Length", None)
        return
    body = response.get_data()
    if len(body) >= COMPRESS_FROM_BYTES:
        response.set_data(gzip.compress(body, 1 if len(body) > 1 << 20 else 4, mtime=0))
        response.headers["Content-Encoding"] = "gzip"


def _gzip_stream(chunks: Iterable[bytes]) -> Iterator[bytes]:
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 31)
    for chunk in chunks:
        out = squeeze.compress(chunk)
        if out:
            yield out
    yield squeeze.flush()
