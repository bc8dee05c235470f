"""From a request's query to what queries take: every value of every name, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flask


def request_arguments() -> Mapping[str, Sequence[str]]:
    """The request's query. Ray's filters are three lists of values that belong together."""
    return dict(flask.request.args.lists())
