"""What is kept, as values of a Secret."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from certs.authority import EcForge
from certs.kept import Kept, Reason
from certs.stored import AUTHORITIES, BUNDLE, CERTIFICATE, KEY, NewerError, from_data, to_data
from tests.certs.forging import POLICY, START

FORGE = EcForge()


def kept() -> Kept:
    """In the midst of a rotation."""
    old = FORGE.authority(reason=Reason.MISSING, now=START, policy=POLICY)
    leaf = FORGE.leaf(old, reason=Reason.EXPIRING, now=START, policy=POLICY)
    new = FORGE.authority(reason=Reason.REQUESTED, now=START, policy=POLICY)
    old = replace(old, published_at=START, signing_since=START)
    return Kept((old, new), leaf)


@pytest.mark.parametrize("state", [Kept(), kept(), replace(kept(), leaf=None)])
def test_what_is_written_is_read(state: Kept) -> None:
    """All of it, with times and reasons."""
    read = from_data(to_data(state))
    assert read.kept == state
    assert read.problems == ()


def test_an_empty_secret_keeps_nothing() -> None:
    """As the chart makes it."""
    assert from_data({}).kept == Kept()


def test_other_tools_find_the_usual_names() -> None:
    """Certificate, key and what to trust."""
    state = kept()
    data = to_data(state)
    assert state.leaf is not None
    assert data[CERTIFICATE] == state.leaf.certificate
    assert data[KEY] == state.leaf.key
    assert data[BUNDLE] == state.authorities[0].certificate + state.authorities[1].certificate


@pytest.mark.parametrize(
    ("name", "value", "authorities", "has_leaf", "problem"),
    [
        (AUTHORITIES, b"{", 0, True, "authorities.json"),
        (CERTIFICATE, b"nonsense", 2, False, "not a certificate"),
        (CERTIFICATE, b"", 2, False, "not a certificate"),
        (KEY, b"nonsense", 2, False, "not a private key"),
        (KEY, b"", 2, False, "not a private key"),
    ],
)
def test_a_broken_value_is_told_and_left_out(
    name: str, value: bytes, authorities: int, has_leaf: bool, problem: str
) -> None:
    """The rest is of use."""
    read = from_data({**to_data(kept()), name: value})
    assert len(read.kept.authorities) == authorities
    assert (read.kept.leaf is not None) == has_leaf
    assert any(problem in told for told in read.problems)


def test_a_key_of_another_certificate_is_not_served() -> None:
    """It would fail every handshake."""
    other = kept().leaf
    assert other is not None
    read = from_data({**to_data(kept()), KEY: other.key})
    assert read.kept.leaf is None
    assert "belongs to another" in read.problems[0]


def test_one_broken_authority_does_not_hide_the_other() -> None:
    """The leaf is still known to be signed by it."""
    data = to_data(kept())
    document = msgspec.json.decode(data[AUTHORITIES])
    document["authorities"][1]["key"] = "nonsense"
    read = from_data({**data, AUTHORITIES: msgspec.json.encode(document)})
    assert len(read.kept.authorities) == 1
    assert read.kept.signed_by == 0


def test_a_leaf_of_a_foreign_authority_is_known_as_such() -> None:
    """Somebody wrote the Secret."""
    foreign = to_data(kept())
    mixed = {**to_data(kept()), CERTIFICATE: foreign[CERTIFICATE], KEY: foreign[KEY]}
    assert from_data(mixed).kept.signed_by == -1


def test_a_newer_version_s_secret_is_left_alone() -> None:
    """After a downgrade: making all anew would break what is served."""
    with pytest.raises(NewerError, match="version 9; known is 1"):
        from_data({AUTHORITIES: b'{"version": 9, "authorities": [], "more": 1}'})


def test_a_newer_version_s_reasons_and_fields_are_no_obstacle() -> None:
    """Replicas of two versions run during an update."""
    data = to_data(kept())
    document = msgspec.json.decode(data[AUTHORITIES])
    document["leafReason"] = document["authorities"][0]["reason"] = "full_moon"
    document["authorities"][0]["colour"] = "blue"
    read = from_data({**data, AUTHORITIES: msgspec.json.encode(document)})
    assert read.problems == ()
    assert read.kept.authorities[0].reason is Reason.UNKNOWN
    assert read.kept.leaf is not None
    assert read.kept.leaf.reason is Reason.UNKNOWN


def test_keys_are_never_shown() -> None:
    """Not in logs, and not in a failing test."""
    assert "PRIVATE KEY" not in repr(kept())
    assert "PRIVATE" in to_data(kept())[AUTHORITIES].decode()
