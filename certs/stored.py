"""The form in which everything is kept in the Secret.

`tls.crt` and `tls.key` are the leaf, `ca.crt` the bundle, all as other tools expect them.
`authorities.json` is the whole truth about the CAs, in one value, so that nothing is half
written. What cannot be read counts as absent, and is made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from certs.authority import UnreadableError, read_authority, read_leaf
from certs.kept import Authority, Kept, Leaf, Reason

CERTIFICATE = "tls.crt"
KEY = "tls.key"
BUNDLE = "ca.crt"
AUTHORITIES = "authorities.json"
_VERSION = 1


class _Authority(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    certificate: str
    reason: str
    key: str | None = None
    published_at: datetime | None = None
    signing_since: datetime | None = None


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    authorities: tuple[_Authority, ...]
    leaf_reason: str = Reason.MISSING.value


class NewerError(Exception):
    """A newer version of this program wrote the Secret: it must not be written by this one."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a Secret holds."""

    kept: Kept
    problems: tuple[str, ...]
    """What could not be read, without its content."""


def to_data(kept: Kept) -> dict[str, bytes]:
    """The Secret's values."""
    leaf = kept.leaf
    document = _Document(
        version=_VERSION,
        authorities=tuple(_written(authority) for authority in kept.authorities),
        leaf_reason=(leaf.reason if leaf is not None else Reason.MISSING).value,
    )
    return {
        CERTIFICATE: leaf.certificate if leaf is not None else b"",
        KEY: leaf.key if leaf is not None else b"",
        BUNDLE: kept.bundle,
        AUTHORITIES: msgspec.json.encode(document),
    }


def from_data(data: Mapping[str, bytes]) -> Read:
    """Read the Secret's values; what is broken is told and left out. Raises `NewerError`."""
    problems: list[str] = []
    document = _document(data.get(AUTHORITIES, b""), problems)
    authorities = tuple(_authorities(document, problems))
    leaf = _leaf(data, authorities, Reason(document.leaf_reason), problems)
    return Read(Kept(authorities, leaf), tuple(problems))


def _document(text: bytes, problems: list[str]) -> _Document:
    empty = _Document(version=_VERSION, authorities=())
    if not text:
        return empty
    try:
        document = msgspec.json.decode(text, type=_Document)
    except msgspec.MsgspecError as error:
        problems.append(f"{AUTHORITIES}: {error}")
        return empty
    if document.version > _VERSION:
        raise NewerError(f"{AUTHORITIES} has version {document.version}; known is {_VERSION}")
    return document


def _authorities(document: _Document, problems: list[str]) -> list[Authority]:
    read: list[Authority] = []
    for place, written in enumerate(document.authorities):
        try:
            read.append(
                read_authority(
                    written.certificate.encode(),
                    written.key.encode() if written.key is not None else None,
                    reason=Reason(written.reason),
                    published_at=written.published_at,
                    signing_since=written.signing_since,
                )
            )
        except UnreadableError as error:
            problems.append(f"{AUTHORITIES}: CA {place + 1}: {error}")
    return read


def _leaf(
    data: Mapping[str, bytes],
    authorities: tuple[Authority, ...],
    reason: Reason,
    problems: list[str],
) -> Leaf | None:
    certificate, key = data.get(CERTIFICATE, b""), data.get(KEY, b"")
    if not certificate and not key:
        return None
    try:
        return read_leaf(certificate, key, authorities, reason=reason)
    except UnreadableError as error:
        problems.append(f"{CERTIFICATE}, {KEY}: {error}")
        return None


def _written(authority: Authority) -> _Authority:
    return _Authority(
        certificate=authority.certificate.decode(),
        reason=authority.reason.value,
        key=authority.key.decode() if authority.key is not None else None,
        published_at=authority.published_at,
        signing_since=authority.signing_since,
    )
