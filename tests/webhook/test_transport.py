"""HTTP of the reviews."""

from __future__ import annotations

import io
import json

import pytest
from flask.testing import FlaskClient

from tests.webhook import review_kit
from tests.webhook.admission_rig import Rig, settings
from webhook.admission import Entry
from webhook.transport import PATHS, create_app

LIMIT_BYTES = 65536
REVIEW = review_kit.body(review_kit.review(review_kit.pod()))


@pytest.fixture
def rig() -> Rig:
    """An admission."""
    return Rig(settings(listen={"maxReviewBytes": LIMIT_BYTES}))


@pytest.fixture
def client(rig: Rig) -> FlaskClient:
    """The app over it."""
    app = create_app(admission=rig.admission, metrics=rig.metrics, max_review_bytes=LIMIT_BYTES)
    return app.test_client()


@pytest.mark.parametrize(("entry", "injects"), [(Entry.NAMESPACE, True), (Entry.CLUSTER, False)])
def test_each_entry_has_a_path(client: FlaskClient, entry: Entry, injects: bool) -> None:
    """The path says which entry of the configuration asks; query values do not matter."""
    answer = client.post(
        f"{PATHS[entry]}?timeout=5s", data=REVIEW, content_type="application/json; charset=utf-8"
    )
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert bool(review_kit.operations(answer.data)) is injects


def test_what_is_no_review_is_400(client: FlaskClient, rig: Rig) -> None:
    """In Kubernetes' shape of errors, without the body in it."""
    answer = client.post(
        PATHS[Entry.NAMESPACE], data=b'{"hush":1}', content_type="application/json"
    )
    assert answer.status_code == 400
    assert json.loads(answer.data)["kind"] == "Status"
    assert b"hush" not in answer.data
    value = rig.metrics.registry.get_sample_value
    assert value("rayhistory_webhook_bad_requests_total", {"reason": "malformed"}) == 1


@pytest.mark.parametrize(
    ("method", "path", "kind", "status"),
    [
        ("POST", "/mutate/namespace", "application/yaml", 415),
        ("POST", "/mutate/namespace", "", 415),
        ("GET", "/mutate/namespace", "", 405),
        ("POST", "/", "application/json", 404),
        ("GET", "/metrics", "", 404),
        ("GET", "/healthz", "", 404),
    ],
)
def test_nothing_else_is_on_this_port(
    client: FlaskClient, method: str, path: str, kind: str, status: int
) -> None:
    """Metrics and probes have a port of their own."""
    answer = client.open(path, method=method, data=b"{}" if kind else None, content_type=kind)
    assert answer.status_code == status
    assert json.loads(answer.data)["code"] == status


def test_a_review_that_is_too_large_is_admitted(client: FlaskClient, rig: Rig) -> None:
    """Its uid is at its beginning, so it can be answered."""
    document = review_kit.review({**review_kit.pod(), "padding": "x" * LIMIT_BYTES})
    answer = client.post(
        PATHS[Entry.NAMESPACE], data=review_kit.body(document), content_type="application/json"
    )
    response = json.loads(answer.data)["response"]
    assert response["uid"] == review_kit.REVIEW_UID
    assert response["allowed"] is True
    assert "larger than 65536 bytes" in response["warnings"][0]
    assert rig.count("untouched", "too_large") == 1


@pytest.mark.parametrize("size", [LIMIT_BYTES + 1, LIMIT_BYTES * 10])
def test_what_is_too_large_and_no_review_is_413(client: FlaskClient, size: int) -> None:
    """Reading it off has an end."""
    stream = io.BytesIO(b"x" * size)
    answer = client.post(
        PATHS[Entry.NAMESPACE], input_stream=stream, content_type="application/json"
    )
    assert answer.status_code == 413
    assert stream.tell() <= LIMIT_BYTES * 4 + 65536
