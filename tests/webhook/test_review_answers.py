"""Reviews on the wire: what is read, and what an answer holds."""

from __future__ import annotations

import json

import pytest

from tests.webhook import review_kit
from webhook import reviews
from webhook.reviews import MalformedReviewError


def test_a_review_is_read_with_unknown_fields_left_in_the_pod() -> None:
    """The pod stays plain JSON, whatever it holds."""
    made = {**review_kit.pod(), "futureField": {"a": [1, None, 2.5]}}
    request = reviews.decode(review_kit.body(review_kit.review(made, futureField=1)))
    assert request.uid == review_kit.REVIEW_UID
    assert (request.namespace, request.operation, request.dry_run) == ("ml", "CREATE", False)
    assert request.object == made


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff",
        b"[]",
        b"null",
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":""}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":7}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"a"}}',
        b'{"kind":"Pod","apiVersion":"admission.k8s.io/v1","request":{"uid":"a"}}',
        b"[" * 200_000,
        b'{"kind":"AdmissionReview","request":{"uid":"a","object":' + b"[" * 200_000,
    ],
)
def test_what_cannot_be_answered_is_refused(body: bytes) -> None:
    """No uid to answer to, or another version's shape."""
    with pytest.raises(MalformedReviewError):
        reviews.decode(body)


def test_patch_and_its_type_come_together_or_not_at_all() -> None:
    """An answer with a type and no patch is refused by the API server."""
    without = json.loads(reviews.allowed("u"))
    assert without == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True},
    }
    operation = {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}
    answer = reviews.allowed("u", operations=[operation], audit={"reason": "x"})
    response = json.loads(answer)["response"]
    assert response["patchType"] == "JSONPatch"
    assert review_kit.operations(answer) == [operation]
    assert response["auditAnnotations"] == {"reason": "x"}


def test_warnings_are_short_single_lines() -> None:
    """Kubernetes asks for at most 120 characters each."""
    answer = reviews.allowed("u", warnings=["a\nb", "", "é" * 300, *["more"] * 20])
    warnings = json.loads(answer)["response"]["warnings"]
    assert warnings[0] == "a b"
    assert warnings[1] == "é" * 117 + "..."
    assert len(warnings) <= 8


def test_a_refusal_says_why_and_asks_to_try_again() -> None:
    """503, as if the webhook were away: controllers repeat it."""
    response = json.loads(reviews.refused("u", message="because"))["response"]
    assert response["uid"] == "u"
    assert response["allowed"] is False
    assert response["status"]["code"] == 503
    assert response["status"]["message"] == "because"
    assert "patch" not in response


def test_the_uid_of_a_large_review_comes_from_its_beginning() -> None:
    """The API server writes it first."""
    head = review_kit.body(review_kit.review(review_kit.pod()))[:500]
    assert reviews.uid_of_head(head) == review_kit.REVIEW_UID
    with pytest.raises(MalformedReviewError):
        reviews.uid_of_head(b'{"request":{"object":{"request":1},"uid":"a"')
