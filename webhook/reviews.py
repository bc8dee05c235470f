"""AdmissionReview v1 on the wire: what is read of a request, and answers.

Only what is needed is decoded; the API server's other fields are skipped. The pod itself stays
plain JSON, so that fields which this release does not know survive.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
WARNING_CHARACTERS = 120
"""Clients may cut longer warnings (Kubernetes' rule for admission webhooks)."""
WARNINGS = 8
"""Of one answer; the API server cuts all warnings of a request together at 4096 characters."""

HEAD_BYTES = 4096
"""Where the uid of a review that is too large is looked for: the API server writes it first."""
_UID_IN_HEAD = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([-0-9A-Za-z]{1,64})"')


class MalformedReviewError(Exception):
    """The body is no AdmissionReview v1 with a uid; there is nothing to answer to.

    The API server then does what the configuration's failurePolicy says.
    """


class GroupVersionKind(msgspec.Struct, frozen=True, gc=False):
    """Of the object under review."""

    kind: str = ""
    group: str = ""
    version: str = ""


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a request that is used."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    namespace: str = ""
    """The pod's own field may be empty (kubernetes/kubernetes#88282)."""
    operation: str = ""
    dry_run: bool | None = None
    object: Any = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: ReviewRequest


class _Status(msgspec.Struct, frozen=True):
    message: str
    code: int
    reason: str = "ServiceUnavailable"
    status: str = "Failure"


class ReviewResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to one review; `patch` and `patch_type` come together or not at all."""

    uid: str
    allowed: bool
    patch_type: str = ""
    patch: str = ""
    status: _Status | None = None
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = {}


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    response: ReviewResponse
    api_version: str = API_VERSION
    kind: str = KIND


_decoder = msgspec.json.Decoder(_Review)
_encoder = msgspec.json.Encoder()


def decode(body: bytes) -> ReviewRequest:
    """Read a review. Raises `MalformedReviewError`."""
    try:
        review = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # A DecodeError names a place and a type, never a value of the pod.
        raise MalformedReviewError(f"not an {KIND}: {error}") from error
    if review.kind != KIND or review.api_version != API_VERSION:
        raise MalformedReviewError(f"neither {API_VERSION} nor kind {KIND}")
    if not review.request.uid:
        raise MalformedReviewError("request.uid is empty")
    return review.request


def uid_of_head(head: bytes) -> str:
    """The uid of a review of which only the beginning is read. Raises `MalformedReviewError`."""
    found = _UID_IN_HEAD.search(head[:HEAD_BYTES])
    if found is None:
        raise MalformedReviewError("too large, and its uid does not come first")
    return found.group(1).decode("ascii")


def allowed(
    uid: str,
    *,
    operations: Sequence[Mapping[str, Any]] = (),
    warnings: Sequence[str] = (),
    audit: Mapping[str, str] | None = None,
) -> bytes:
    """Let the pod in, with a patch when there are operations."""
    response = ReviewResponse(
        uid=uid,
        allowed=True,
        patch_type="JSONPatch" if operations else "",
        patch=b64encode(_encoder.encode(operations)).decode("ascii") if operations else "",
        warnings=_cut(warnings),
        audit_annotations=audit or {},
    )
    return _encoder.encode(_Answer(response))


def refused(uid: str, *, message: str, audit: Mapping[str, str] | None = None) -> bytes:
    """Keep the pod out; its controller tries again (503, as a webhook that is away)."""
    response = ReviewResponse(
        uid=uid,
        allowed=False,
        status=_Status(message=message, code=503),
        audit_annotations=audit or {},
    )
    return _encoder.encode(_Answer(response))


def _cut(warnings: Sequence[str]) -> tuple[str, ...]:
    lines = (" ".join(warning.split()) for warning in warnings[:WARNINGS])
    return tuple(
        line if len(line) <= WARNING_CHARACTERS else f"{line[: WARNING_CHARACTERS - 3]}..."
        for line in lines
        if line
    )
