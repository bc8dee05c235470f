"""HTTP of the reviews: a body in, an answer out, and nothing else on this port.

A review that can be answered is answered with 200, whatever it holds. Where there is no uid to
answer to, the status is an HTTP error, and the API server does what its failurePolicy says.
"""

from __future__ import annotations

from typing import IO

import flask
from werkzeug.exceptions import HTTPException

from webhook.admission import Admission, Entry
from webhook.metrics import BadRequest, WebhookMetrics
from webhook.reviews import HEAD_BYTES, MalformedReviewError

PATHS = {Entry.NAMESPACE: "/mutate/namespace", Entry.CLUSTER: "/mutate/cluster"}
"""Of the two entries of the webhook configuration."""
DRAINED_TIMES = 4
"""So many times the largest review are read off before the connection is given up."""
_CHUNK_BYTES = 65536


class _RefusedError(Exception):
    """Answered with an HTTP error."""

    def __init__(self, status: int, reason: BadRequest, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


def create_app(
    *, admission: Admission, metrics: WebhookMetrics, max_review_bytes: int
) -> flask.Flask:
    """Make the app: two routes."""
    app = flask.Flask("webhook", static_folder=None)

    def answer(entry: Entry) -> flask.Response:
        body, is_whole = _body(flask.request.environ["wsgi.input"], max_review_bytes)
        try:
            made = admission.review(body, entry) if is_whole else admission.too_large(body, entry)
        except MalformedReviewError as error:
            if is_whole:
                raise _RefusedError(400, BadRequest.MALFORMED, str(error)) from error
            raise _RefusedError(413, BadRequest.TOO_LARGE, str(error)) from error
        return flask.Response(made, content_type="application/json")

    def refuse(error: _RefusedError) -> flask.Response:
        metrics.bad_request(error.reason)
        return _error(error.status, str(error))

    def fail(error: HTTPException) -> flask.Response:
        return _error(error.code or 500, error.name)

    for entry, path in PATHS.items():
        app.add_url_rule(path, entry.value, answer, methods=["POST"], defaults={"entry": entry})
    app.before_request(_check_type)
    app.register_error_handler(_RefusedError, refuse)
    app.register_error_handler(HTTPException, fail)
    return app


def _check_type() -> None:
    request = flask.request
    if request.method == "POST" and request.mimetype != "application/json":
        raise _RefusedError(415, BadRequest.CONTENT_TYPE, "send application/json")


def _body(stream: IO[bytes], max_bytes: int) -> tuple[bytes, bool]:
    """The body, or its beginning and False; the rest is read off so that the answer arrives."""
    body = stream.read(max_bytes + 1)
    if len(body) <= max_bytes:
        return body, True
    left = max_bytes * (DRAINED_TIMES - 1)
    while left > 0:
        chunk = stream.read(min(_CHUNK_BYTES, left))
        if not chunk:
            return body[:HEAD_BYTES], False
        left -= len(chunk)
    raise _RefusedError(413, BadRequest.TOO_LARGE, f"larger than {max_bytes} bytes")


def _error(status: int, message: str) -> flask.Response:
    """JSON in the shape of Kubernetes' own errors."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    return flask.Response(
        flask.json.dumps({**body, "message": message[:500]}) + "\n",
        status=status,
        content_type="application/json",
    )
