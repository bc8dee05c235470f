"""Keys of our own tree: built, read back, ordered, and never mistaken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.backend import InvalidKeyError
from storage.layout import (
    CatalogueKey,
    CompiledKey,
    HotSegmentKey,
    ManifestKey,
    SessionRef,
    SnapshotKey,
    catalogue_day,
    catalogue_key,
    catalogue_prefix,
    cluster_prefix,
    compiled_key,
    compiled_prefix,
    end_key,
    hot_prefix,
    hot_segment_key,
    is_session_name,
    kuberay_session_prefix,
    manifest_key,
    node_prefix,
    nodes_prefix,
    parse_catalogue_key,
    parse_compiled_key,
    parse_end_key,
    parse_event_key,
    parse_hot_segment_key,
    parse_log_key,
    parse_manifest_key,
    parse_marker_key,
    parse_session_json_key,
    parse_snapshot_key,
    session_json_key,
    session_prefix,
    session_started_ms,
    snapshot_key,
    snapshots_prefix,
)
from tests.storage import names

SESSION = "session_2026-08-18_09-00-01_000123_1"
REF = SessionRef("ml", "v170", SESSION)
NODE = "c3" * 28
BASE = f"history/v1/sessions/ml/v170/{SESSION}"


def test_the_documented_keys() -> None:
    """docs/storage-layout.md says these."""
    assert session_json_key(REF) == f"{BASE}/session.json"
    assert end_key(REF) == f"{BASE}/end.json"
    assert manifest_key(REF, NODE) == f"{BASE}/nodes/{NODE}/manifest.json"
    assert hot_segment_key(REF, NODE, 7) == f"{BASE}/nodes/{NODE}/hot/000000000007.seg"
    assert snapshot_key(REF, "/nodes?view=summary") == (
        f"{BASE}/snapshots/%2Fnodes%3Fview%3Dsummary.json.zst"
    )
    assert compiled_key(REF, 1, "00ff") == f"{BASE}/compiled/1-00ff.sqlite.zst"
    assert catalogue_day(REF) == "2026-08-18"
    assert catalogue_key(REF) == f"history/v1/catalogue/2026-08-18/ml/v170/{SESSION}.json"
    assert catalogue_key(REF, "2026-08-19").startswith("history/v1/catalogue/2026-08-19/")


@given(
    ref=names.LEGACY_REFS,
    node=names.NODES,
    seq=st.integers(min_value=0, max_value=10**12 - 1),
    request=names.REQUESTS,
    fingerprint=st.text("0123456789abcdef", min_size=1, max_size=64),
    day=st.dates(),
)
def test_keys_round_trip(
    ref: SessionRef, node: str, seq: int, request: str, fingerprint: str, day: object
) -> None:
    """Every key is read back as what it was built from, and by its own parser only."""
    built: dict[str, tuple[Callable[[str], object], object]] = {
        session_json_key(ref): (parse_session_json_key, ref),
        end_key(ref): (parse_end_key, ref),
        manifest_key(ref, node): (parse_manifest_key, ManifestKey(ref, node)),
        hot_segment_key(ref, node, seq): (parse_hot_segment_key, HotSegmentKey(ref, node, seq)),
        snapshot_key(ref, request): (parse_snapshot_key, SnapshotKey(ref, request)),
        compiled_key(ref, 3, fingerprint): (parse_compiled_key, CompiledKey(ref, 3, fingerprint)),
        catalogue_key(ref, str(day)): (parse_catalogue_key, CatalogueKey(ref, str(day))),
    }
    parsers = [parse for parse, _ in built.values()]
    parsers += [parse_marker_key, parse_event_key, parse_log_key]
    for key, (own, expected) in built.items():
        for parse in parsers:
            assert parse(key) == (expected if parse is own else None)


@given(ref=names.LEGACY_REFS, node=names.NODES)
def test_everything_of_a_session_lies_below_its_prefixes(ref: SessionRef, node: str) -> None:
    """So one listing finds it."""
    assert session_prefix(ref).startswith(cluster_prefix(ref.namespace, ref.cluster))
    assert manifest_key(ref, node).startswith(node_prefix(ref, node))
    assert node_prefix(ref, node).startswith(nodes_prefix(ref))
    assert hot_segment_key(ref, node, 1).startswith(hot_prefix(ref, node))
    assert snapshot_key(ref, "/x").startswith(snapshots_prefix(ref))
    assert compiled_key(ref, 1, "a").startswith(compiled_prefix(ref))
    assert catalogue_key(ref).startswith(catalogue_prefix(catalogue_day(ref)))
    assert catalogue_prefix(catalogue_day(ref)).startswith(catalogue_prefix())


@given(one=names.SIMILAR_REFS, other=names.SIMILAR_REFS)
def test_no_session_lies_within_anothers_prefix(one: SessionRef, other: SessionRef) -> None:
    """The owner is no part of our keys; all else keeps sessions apart."""
    same = (one.namespace, one.cluster) == (other.namespace, other.cluster)
    assert session_prefix(one).startswith(session_prefix(other)) == same
    assert catalogue_key(one).startswith(catalogue_key(other)) == same
    assert not session_prefix(one).startswith(kuberay_session_prefix(other))


@given(
    one=st.integers(min_value=0, max_value=10**12 - 1),
    other=st.integers(min_value=0, max_value=10**12 - 1),
)
def test_segments_are_listed_in_their_order(one: int, other: int) -> None:
    """Byte order of keys is the order of numbers."""
    assert (hot_segment_key(REF, NODE, one) < hot_segment_key(REF, NODE, other)) == (one < other)


def test_no_key_lies_below_another() -> None:
    """A directory could not hold such a pair."""
    keys = [
        session_json_key(REF),
        end_key(REF),
        manifest_key(REF, NODE),
        hot_segment_key(REF, NODE, 1),
        snapshot_key(REF, "/nodes"),
        snapshot_key(REF, "/nodes/x"),
        compiled_key(REF, 1, "a"),
        catalogue_key(REF),
    ]
    assert [(a, b) for a in keys for b in keys if a.startswith(f"{b}/")] == []


@pytest.mark.parametrize(
    "key",
    [
        "",
        "history/v1/sessions/ml/v170",
        f"{BASE}/",
        f"history/v2/sessions/ml/v170/{SESSION}/session.json",
        f"history/v1/sessions/ml/../{SESSION}/session.json",
        f"{BASE}/nodes/{NODE}/hot/7.seg",
        f"{BASE}/nodes/{NODE}/hot/0000000000071.seg",
        f"{BASE}/nodes/XYZ/manifest.json",
        f"{BASE}/snapshots/.json.zst",
        f"{BASE}/snapshots/%2fnodes.json.zst",
        f"{BASE}/snapshots/%FF.json.zst",
        f"{BASE}/compiled/1.sqlite.zst",
        f"{BASE}/compiled/x-00ff.sqlite.zst",
        f"history/v1/catalogue/2026-02-30/ml/v170/{SESSION}.json",
        f"history/v1/catalogue/20260218/ml/v170/{SESSION}.json",
    ],
)
def test_foreign_and_hostile_keys_are_none_of_ours(key: str) -> None:
    """Not canonical, not possible, another version: None."""
    for parse in (
        parse_session_json_key,
        parse_end_key,
        parse_manifest_key,
        parse_hot_segment_key,
        parse_snapshot_key,
        parse_compiled_key,
        parse_catalogue_key,
    ):
        assert parse(key) is None


@pytest.mark.parametrize(
    "build",
    [
        lambda: hot_segment_key(REF, NODE, -1),
        lambda: hot_segment_key(REF, NODE, 10**12),
        lambda: manifest_key(REF, "../x"),
        lambda: snapshot_key(REF, ""),
        lambda: snapshot_key(REF, "\udc80"),
        lambda: snapshot_key(REF, "/" * 400),
        lambda: compiled_key(REF, 1, "../x"),
        lambda: compiled_key(REF, -1, "aa"),
        lambda: catalogue_key(REF, "2026-2-3"),
        lambda: catalogue_key(REF, "../../x"),
        lambda: cluster_prefix("..", "x"),
    ],
)
def test_hostile_parts_are_refused(build: object) -> None:
    """No key is built that leads elsewhere."""
    assert callable(build)
    with pytest.raises(InvalidKeyError):
        build()


def test_the_start_of_a_session_is_in_its_name() -> None:
    """Read as UTC, as KubeRay's server does; the process id may be missing."""
    assert session_started_ms("session_1970-01-02_00-00-01_500999_4711") == 86_401_500
    assert session_started_ms("session_1970-01-02_00-00-01_500999") == 86_401_500
    assert not is_session_name("session_latest")


def test_a_ref_tells_what_users_see() -> None:
    """The owner, where there is one."""
    owned = SessionRef("ml", "c-x7", SESSION, "rayservice", "svc")
    assert (owned.kind, owned.name) == ("rayservice", "svc")
    assert (REF.kind, REF.name) == ("raycluster", "v170")
