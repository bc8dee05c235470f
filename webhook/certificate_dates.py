"""When a certificate ends, read from its PEM without a cryptography library.

The standard library tells it of CA and peer certificates only, and 30 MB of memory are much for
one date. The way there is short and fixed (RFC 5280, 4.1): Certificate, tbsCertificate, then
[0] version, serialNumber, signature, issuer, validity.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


def not_after_s(pem: bytes) -> float:
    """The Unix time after which the first certificate is not valid. Raises ValueError."""
    text = pem.decode("ascii", errors="replace")
    start, end = text.find(_BEGIN), text.find(_END)
    if start < 0 or end < start:
        raise ValueError("no certificate in PEM")
    der = ssl.PEM_cert_to_DER_cert(text[start : end + len(_END)])
    try:
        return _not_after(der)
    except IndexError as error:
        raise ValueError("a certificate that ends too early") from error


def _not_after(der: bytes) -> float:
    certificate, _ = _content(der, 0, _SEQUENCE)
    at, _ = _content(der, certificate, _SEQUENCE)
    if der[at] == _VERSION:
        at = _after(der, at)
    for _ in ("serialNumber", "signature", "issuer"):
        at = _after(der, at)
    not_before, _ = _content(der, at, _SEQUENCE)
    at = _after(der, not_before)
    start, end = _content(der, at, der[at])
    text = der[start:end].decode("ascii", errors="replace")
    if der[at] == _UTC_TIME:  # years 1950 to 2049
        text = ("19" if text[:2] >= "50" else "20") + text
    elif der[at] != _GENERALIZED_TIME:
        raise ValueError("a certificate whose end is no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _content(der: bytes, at: int, tag: int) -> tuple[int, int]:
    """Where the content of the element at `at` begins and ends."""
    if der[at] != tag:
        raise ValueError("not a certificate in DER")
    length, start = der[at + 1], at + 2
    if length >= 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(der[start : start + size], "big"), start + size
    return start, start + length


def _after(der: bytes, at: int) -> int:
    return _content(der, at, der[at])[1]
