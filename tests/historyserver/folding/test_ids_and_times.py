"""Ids and times are read exactly, or refused."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyserver.folding.ids import BadIdError, HexIds, parse_id
from historyserver.folding.times import BadTimeError, parse_time_ns, utc_text

SIZES = st.sampled_from([4, 16, 18, 24, 28])


@given(data=st.data(), size=SIZES)
def test_every_way_of_writing_an_id_means_the_same(data: st.DataObject, size: int) -> None:
    """Base64 of either alphabet, padded or not, and hex; for every length that Ray uses."""
    raw = data.draw(st.binary(min_size=size, max_size=size))
    standard = base64.b64encode(raw).decode()
    url = base64.urlsafe_b64encode(raw).decode()
    ways = {standard, standard.rstrip("="), url, url.rstrip("="), raw.hex(), raw.hex().upper()}
    assert {parse_id(way, size) for way in ways} == {raw}


@pytest.mark.parametrize("text", ["", "AQAA", "AQAAAAAA", "not an id", "\x00", "ÄÖ", "A" * 100_000])
def test_what_is_no_id_is_refused(text: str) -> None:
    """Wrong length or alphabet: an error, never another id."""
    with pytest.raises(BadIdError):
        parse_id(text, 4)


def test_nil_and_absent_ids_are_empty() -> None:
    """Ray's nil is all ones; its API shows null."""
    ids = HexIds(4)
    assert [ids["/////w=="], ids[""], ids["AQAAAA=="]] == ["", "", "01000000"]


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.417Z", 1_417_000_000),
        ("1970-01-01T00:00:01.123456789Z", 1_123_456_789),
        ("1970-01-01T01:00:01.5+01:00", 1_500_000_000),
        ("2026-11-30T21:47:22.868928822Z", 1_796_075_242_868_928_822),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, expected_ns: int) -> None:
    """Ray writes none to nine decimals."""
    assert parse_time_ns(text) == expected_ns
    assert parse_time_ns(text) == expected_ns  # the second time, its second is remembered


@pytest.mark.parametrize(
    "text",
    ["", "Z", "now", "2026-11-30", "2026-11-30T21:47:22.1234567890Z", "2026-11-30T21:47:22.12345678xZ",
     "2026-13-30T21:47:22Z", "1900-01-01T00:00:00Z", "2026-11-30T21:47:22 Z"],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    """An error, never a wrong time."""
    with pytest.raises(BadTimeError):
        parse_time_ns(text)


def test_times_are_written_as_people_read_them() -> None:
    """In UTC, to the second."""
    assert utc_text(1_796_075_248_271) == "2026-11-30 21:47:28 UTC"
