"""Streams become blocks of whole lines, however the stream is cut."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from historyserver.reading.blocks import first_bytes, gunzip, is_gzip, line_blocks
from historyserver.reading.damage import DamageLog, DamageReason

LINES = [b'{"eventId":"%d","text":"%s"}\n' % (n, b"x" * (n % 97)) for n in range(400)]
TEXT = b"".join(LINES)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@settings(deadline=None, max_examples=100)
@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=30), block_bytes=st.integers(1, 9000))
def test_any_cut_of_the_stream_gives_the_same_lines(cuts: list[int], block_bytes: int) -> None:
    """Blocks end with a newline and join to the input, nothing lost or doubled."""
    damage = DamageLog()
    blocks = list(line_blocks(pieces(TEXT, cuts), key="k", damage=damage, block_bytes=block_bytes))
    assert b"".join(blocks) == TEXT
    assert all(block.endswith(b"\n") for block in blocks)
    assert not damage.items


def test_truncation_at_any_byte_keeps_the_whole_lines() -> None:
    """A torn last line is dropped and counted; one that is whole JSON is kept."""
    for cut in range(600):
        damage = DamageLog()
        text = TEXT[:cut]
        out = b"".join(line_blocks([text], key="k", damage=damage))
        whole = text.count(b"\n")
        rest = text[text.rfind(b"\n") + 1 :]
        if rest and rest + b"\n" == LINES[whole]:
            assert out == text + b"\n"
            assert not damage.items
        else:
            assert out == b"".join(LINES[:whole])
            torn = [(item.reason, item.size_bytes) for item in damage.items]
            assert torn == ([(DamageReason.TORN_LINE, len(rest))] if rest else [])


def test_a_line_over_the_limit_is_skipped_and_counted(damage: DamageLog) -> None:
    """The lines before and after it are kept; the memory stays bounded."""
    chunks = [b'{"a":1}\n{"huge":"', *[b"x" * 1000] * 50, b'"}\n{"b":2}\n', b'{"c":3}\n']
    out = b"".join(line_blocks(chunks, key="k", damage=damage, max_line_bytes=10_000))
    assert out == b'{"a":1}\n{"b":2}\n{"c":3}\n'
    assert [(i.reason, i.size_bytes) for i in damage.items] == [
        (DamageReason.LINE_TOO_LONG, len(b'{"huge":""}\n') + 50_000)
    ]


def test_an_endless_line_is_never_held_whole(damage: DamageLog) -> None:
    """A stream without any newline costs no more memory than the limit of a line."""
    chunks = (b"x" * 262_144 for _ in range(4 * 30))
    tracemalloc.start()
    out = list(line_blocks(chunks, key="k", damage=damage, max_line_bytes=2_000_000))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert out == []
    assert damage.counts() == {"line_too_long": 1}
    assert peak_bytes < 4_000_000


def test_blocks_have_about_the_size_asked_for(damage: DamageLog) -> None:
    """Small chunks are gathered, so that the caller's cost per block stays small."""
    blocks = list(line_blocks(LINES, key="k", damage=damage, block_bytes=5000))
    assert {len(block) // 5000 for block in blocks[:-1]} == {1}


@settings(deadline=None, max_examples=100)
@given(cuts=st.lists(st.integers(0, 1500), max_size=12), members=st.integers(1, 3))
def test_gzip_of_several_members_unpacks_in_any_cut(cuts: list[int], members: int) -> None:
    """Members in a row are one stream, as `cat a.gz b.gz` makes it."""
    damage = DamageLog()
    packed = b"".join(gzip.compress(part) for part in pieces(TEXT, list(range(1, members))))
    out = b"".join(gunzip(pieces(packed, cuts), key="k", damage=damage))
    assert out == TEXT
    assert not damage.items


def test_gzip_truncated_at_any_byte_keeps_what_was_readable() -> None:
    """Never an error, always a prefix, and the loss is counted unless nothing is missing."""
    packed = gzip.compress(TEXT)
    longest = 0
    for cut in range(2, len(packed)):
        damage = DamageLog()
        out = b"".join(gunzip([packed[:cut]], key="k", damage=damage))
        assert TEXT.startswith(out)
        assert len(out) >= longest
        longest = len(out)
        assert damage.counts() == {"truncated_gzip": 1}
    assert longest == len(TEXT)


def test_corrupt_gzip_keeps_what_comes_before_the_fault(damage: DamageLog) -> None:
    """Also what is in the same chunk as the fault, which zlib itself throws away."""
    noise = random.Random(7).randbytes(100_000).hex().encode()
    packed = bytearray(gzip.compress(noise, 9))
    packed[len(packed) // 2 : len(packed) // 2 + 8] = b"\xff" * 8
    out = b"".join(gunzip([bytes(packed)], key="k", damage=damage))
    kept = next((n for n in range(len(out)) if out[n] != noise[n]), len(out))
    assert kept > len(noise) // 3
    assert damage.counts() == {"corrupt_gzip": 1}


def test_bytes_after_gzip_are_counted_and_padding_is_not(damage: DamageLog) -> None:
    """Zero bytes are padding; anything else is a loss that has to be told."""
    packed = gzip.compress(b"{}\n")
    assert b"".join(gunzip([packed + b"\0\0\0"], key="k", damage=damage)) == b"{}\n"
    assert not damage.items
    assert b"".join(gunzip([packed + b"junk"], key="k", damage=damage)) == b"{}\n"
    assert damage.counts() == {"trailing_bytes": 1}


def test_a_gzip_bomb_unpacks_in_bounded_pieces(damage: DamageLog) -> None:
    """60 MB of zeros in 60 KB come in pieces of at most 1 MiB."""
    packed = gzip.compress(bytes(60_000_000), 9)
    sizes = [len(piece) for piece in gunzip([packed], key="k", damage=damage)]
    assert sum(sizes) == 60_000_000
    assert max(sizes) <= 1024 * 1024


def test_the_first_bytes_are_found_whatever_the_cut(damage: DamageLog) -> None:
    """Looking at the start consumes nothing; leading space may be stripped."""
    for data in (b"", b"\x1f", b"\x1f\x8b", b" \n [1]"):
        first, stream = first_bytes([bytes([byte]) for byte in data], strip=b" \n")
        assert b"".join(stream) == data.lstrip(b" \n")
        assert first == data.lstrip(b" \n")[:2]
        assert is_gzip(first) is (data == b"\x1f\x8b")
