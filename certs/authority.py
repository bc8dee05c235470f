"""Makes CAs and leaves, and reads what is kept of them.

EC P-256: small, fast in a handshake, and taken by every API server.
"""

from __future__ import annotations

import ipaddress
import secrets
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.kept import Authority, Leaf, Reason
from certs.state import Policy

_SHA256 = hashes.SHA256()


class UnreadableError(Exception):
    """A certificate or key is not what it should be."""


class EcForge:
    """The `Forge` in use."""

    def authority(self, *, reason: Reason, now: datetime, policy: Policy) -> Authority:
        """A new CA with its key. Its name is its own, so that two are never mixed up."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"ray-history-server CA {secrets.token_hex(4)}")
        begins = now - policy.backdate
        certificate = (
            _builder(name, name, key, begins, begins + policy.authority_life)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(key, _SHA256)
        )
        return read_authority(_pem(certificate), _key_pem(key), reason=reason)

    def leaf(self, signer: Authority, *, reason: Reason, now: datetime, policy: Policy) -> Leaf:
        """A new leaf with a new key."""
        if signer.key is None:
            raise UnreadableError(f"CA {signer.id[:12]} has no key")
        authority = _certificate(signer.certificate)
        key = ec.generate_private_key(ec.SECP256R1())
        begins = max(now - policy.backdate, signer.not_before)
        ends = policy.leaf_end(signer, now)
        names = [_general_name(name) for name in sorted(policy.names)]
        certificate = (
            _builder(_name("ray-history-webhook"), authority.subject, key, begins, ends)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
                ),
                critical=False,
            )
            .sign(_key(signer.key), _SHA256)
        )
        return read_leaf(_pem(certificate), _key_pem(key), (signer,), reason=reason)


def read_authority(
    certificate: bytes,
    key: bytes | None,
    *,
    reason: Reason,
    published_at: datetime | None = None,
    signing_since: datetime | None = None,
) -> Authority:
    """A CA from its PEM texts. Raises `UnreadableError`, also when the key is another's."""
    read = _certificate(certificate)
    if key is not None:
        _check_pair(read, key)
    return Authority(
        id=read.fingerprint(_SHA256).hex(),
        certificate=_pem(read),
        not_before=read.not_valid_before_utc,
        not_after=read.not_valid_after_utc,
        reason=reason,
        key=key,
        published_at=published_at,
        signing_since=signing_since,
    )


def read_leaf(
    certificate: bytes, key: bytes, authorities: tuple[Authority, ...], *, reason: Reason
) -> Leaf:
    """A leaf from its PEM texts. Raises `UnreadableError`, also when the key is another's."""
    read = _certificate(certificate)
    _check_pair(read, key)
    return Leaf(
        id=read.fingerprint(_SHA256).hex(),
        certificate=_pem(read),
        key=key,
        authority=next((a.id for a in authorities if _is_signed_by(read, a)), ""),
        names=_names(read),
        not_before=read.not_valid_before_utc,
        not_after=read.not_valid_after_utc,
        reason=reason,
    )


def _is_signed_by(certificate: x509.Certificate, authority: Authority) -> bool:
    try:
        certificate.verify_directly_issued_by(_certificate(authority.certificate))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    dns = names.get_values_for_type(x509.DNSName)
    return frozenset([*dns, *map(str, names.get_values_for_type(x509.IPAddress))])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise UnreadableError("not a certificate in PEM form") from error


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise UnreadableError("not a private key in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnreadableError("not a key of an elliptic curve")
    return key


def _check_pair(certificate: x509.Certificate, key: bytes) -> None:
    if _key(key).public_key() != certificate.public_key():
        raise UnreadableError("the key belongs to another certificate")


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
