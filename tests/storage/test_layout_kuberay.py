"""KubeRay's keys: built as its v1.7 collector does, read as all of its collectors wrote them."""

from __future__ import annotations

import base64
import tarfile
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.backend import InvalidKeyError
from storage.layout import (
    EndpointKey,
    EventKey,
    Generation,
    LogKey,
    MarkerKey,
    SessionRef,
    endpoint_key,
    event_key,
    kuberay_node_prefix,
    kuberay_session_prefix,
    legacy_marker_key,
    legacy_session_prefix,
    log_key,
    marker_key,
    parse_data_session,
    parse_endpoint_key,
    parse_event_key,
    parse_log_key,
    parse_marker_key,
)
from tests.storage import names
from tests.storage.contract import REPOSITORY

NODE = "c31aa7dc4277828999c5c21b9b62d7e0eb50813c53a5b51e9f8d3dcd"
SESSION = "session_2026-08-18_09-00-01_000123_1"
PLAIN = SessionRef("default", "rc", SESSION)
OWNED = SessionRef("default", "rc-x7k2p", SESSION, "rayjob", "rj")


def test_keys_of_generation_c() -> None:
    """The examples of KubeRay's v1.7, literally."""
    assert marker_key(PLAIN) == f"cluster-metadata/raycluster/default_rc/{SESSION}"
    assert marker_key(OWNED) == f"cluster-metadata/rayjob/default_rj_rc-x7k2p/{SESSION}"
    base = f"cluster-history/rayjob/default/rj/rc-x7k2p/{SESSION}/"
    assert kuberay_session_prefix(OWNED) == base
    assert log_key(OWNED, NODE, "events/event_GCS.log") == f"{base}{NODE}/logs/events/event_GCS.log"
    assert event_key(OWNED, NODE, ("job_events", "01000000"), 1755507601000000000, gzip=False) == (
        f"{base}{NODE}/job_events/01000000/{NODE}-2025-08-18-09-1755507601000000000.jsonl"
    )
    assert event_key(PLAIN, NODE, "node_events", 1755507601000000000) == (
        f"cluster-history/raycluster/default/rc/{SESSION}/{NODE}/node_events/"
        f"{NODE}-2025-08-18-09-1755507601000000000.jsonl.gz"
    )


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("/timezone", "restful__timezone"),
        ("/api/v0/cluster_metadata", "restful__api__v0__cluster_metadata"),
        ("/api/serve/applications/", "restful__api__serve__applications"),
        (
            "/api/v0/placement_groups?detail=1&limit=10000",
            "restful__api__v0__placement_groups?detail=1&limit=10000",
        ),
        ("/api/data/datasets/01000000", "restful__api__data__datasets__01000000"),
    ],
)
def test_kept_answers(name: str, file: str) -> None:
    """The request's path, flattened; the slash at the end that Ray wants comes back."""
    key = f"{kuberay_session_prefix(PLAIN)}fetched_endpoints/{file}"
    assert endpoint_key(PLAIN, name) == key
    assert parse_endpoint_key(key) == EndpointKey(PLAIN, name, legacy=False)
    legacy = f"{legacy_session_prefix(PLAIN)}fetched_endpoints/{file}"
    assert parse_endpoint_key(legacy) == EndpointKey(PLAIN, name, legacy=True)


@given(ref=names.REFS, legacy_ref=names.LEGACY_REFS)
def test_markers_round_trip(ref: SessionRef, legacy_ref: SessionRef) -> None:
    """A marker's key holds everything, the owner too; A joins the names the other way round."""
    assert parse_marker_key(marker_key(ref)) == MarkerKey(ref, legacy=False)
    assert parse_marker_key(legacy_marker_key(legacy_ref)) == MarkerKey(legacy_ref, legacy=True)


@given(
    ref=names.REFS,
    node=names.NODES,
    job=st.one_of(st.just(""), names.JOBS),
    created_ns=names.CREATED_NS,
    gzip=st.booleans(),
)
def test_event_files_round_trip(
    ref: SessionRef, node: str, job: str, created_ns: int, gzip: bool
) -> None:
    """Node and job events, packed or not."""
    key = event_key(ref, node, ("job_events", job) if job else "node_events", created_ns, gzip)
    assert key.startswith(kuberay_node_prefix(ref, node))
    parsed = parse_event_key(key)
    assert parsed is not None
    assert parsed == EventKey(
        ref, Generation.C, node, job, hour=parsed.hour, created_ns=created_ns, gzip=gzip
    )
    assert parse_data_session(key) == (ref, False)
    assert [parse(key) for parse in (parse_log_key, parse_endpoint_key)] == [None, None]


@given(ref=names.REFS, legacy_ref=names.LEGACY_REFS, node=names.NODES, path=names.PATHS)
def test_logs_round_trip(ref: SessionRef, legacy_ref: SessionRef, node: str, path: str) -> None:
    """Any path that a file system can have, in both trees."""
    key = log_key(ref, node, path)
    assert parse_log_key(key) == LogKey(ref, node, path, legacy=False)
    assert [parse(key) for parse in (parse_event_key, parse_endpoint_key)] == [None, None]
    legacy_key = f"{legacy_session_prefix(legacy_ref)}logs/{node}/{path}"
    assert parse_log_key(legacy_key) == LogKey(legacy_ref, node, path, legacy=True)


@given(
    ref=names.LEGACY_REFS,
    node=names.NODES,
    number=st.integers(min_value=0, max_value=2**32 - 1),
    url_safe=st.booleans(),
    padded=st.booleans(),
    gzip=st.booleans(),
)
def test_base64_job_folders_of_the_old_generations(
    ref: SessionRef, node: str, number: int, url_safe: bool, padded: bool, gzip: bool
) -> None:
    """Standard or URL base64, padded or not, even where its `/` made two folders of it."""
    raw = number.to_bytes(4, "little")
    folder = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(raw).decode()
    folder = folder if padded else folder.rstrip("=")
    collapsed = "/".join(part for part in folder.split("/") if part)
    file = f"{node}-2026-01-06-07{'.gz' if gzip else ''}"
    parsed = parse_event_key(f"{legacy_session_prefix(ref)}job_events/{collapsed}/{file}")
    assert parsed is not None
    assert parsed.generation is (Generation.B if gzip else Generation.A)
    assert (parsed.session, parsed.node_id, parsed.gzip) == (ref, node, gzip)
    if "//" not in folder:  # Then Go's path.Join lost nothing but a leading slash.
        assert parsed.job_id == raw.hex()


@pytest.mark.parametrize(
    ("folder", "job"),
    [("AAAAA==", "fc000000"), ("w==", "ffffffff"), ("A/AAAA==", "03f00000"), ("A/AAA==", "")],
)
def test_job_folders_that_lost_a_slash(folder: str, job: str) -> None:
    """Go's path.Join cleans `job_events//AAAAA==`; what cannot be known is left open."""
    parsed = parse_event_key(
        f"{legacy_session_prefix(PLAIN)}job_events/{folder}/{NODE}-2026-01-06-07"
    )
    assert parsed is not None
    assert parsed.job_id == job


@pytest.mark.parametrize(
    ("below", "generation", "job"),
    [
        (f"{NODE}/node_events/{NODE}-2026-08-01-10.gz", Generation.C_MINUS, ""),
        (f"{NODE}/job_events/AQAAAA==/{NODE}-2026-07-30-10.gz", Generation.C_MINUS, "01000000"),
        (f"{NODE}/job_events/01000000/{NODE}-2026-08-01-10.gz", Generation.C_MINUS, "01000000"),
        (f"{NODE}/node_events/{NODE}-2026-08-19-10-17.jsonl", Generation.C, ""),
        (f"{NODE}/job_events/what?/{NODE}-2026-08-19-10-17.jsonl", Generation.C, ""),
    ],
)
def test_event_files_of_the_new_tree(below: str, generation: Generation, job: str) -> None:
    """C- and C differ in the file's name; a folder that tells no job loses no file."""
    parsed = parse_event_key(f"{kuberay_session_prefix(OWNED)}{below}")
    assert parsed is not None
    assert (parsed.session, parsed.generation, parsed.node_id) == (OWNED, generation, NODE)
    assert parsed.job_id == job


def test_every_key_of_the_real_sample_is_understood() -> None:
    """Two sessions as v1.6.2 and v1.7.0 wrote them; only folder markers are no keys."""
    with tarfile.open(REPOSITORY / "tests" / "samples" / "kuberay-sessions.tar.gz") as tar:
        files = [member.name for member in tar if member.isfile()]
    found: Counter[tuple[str, str]] = Counter()
    for file in files:
        _, inside, key = file.partition("tree/")
        key = key.removeprefix("log/")
        if not inside or key.endswith(".dir-marker"):
            continue
        parsed = [
            one
            for one in (
                parse_marker_key(key),
                parse_event_key(key),
                parse_log_key(key),
                parse_endpoint_key(key),
            )
            if one is not None
        ]
        assert len(parsed) == 1, key
        found[(type(parsed[0]).__name__, parsed[0].session.name)] += 1
        assert parsed[0].session.namespace == "ml"
    assert found == {
        ("MarkerKey", "v162"): 1,
        ("MarkerKey", "v170"): 1,
        ("EventKey", "v162"): 4,
        ("EventKey", "v170"): 6,
        ("EndpointKey", "v162"): 2,
        ("EndpointKey", "v170"): 3,
        ("LogKey", "v162"): found[("LogKey", "v162")],
        ("LogKey", "v170"): found[("LogKey", "v170")],
    }


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "metadir/no-namespace/" + SESSION,
        f"metadir/a_b/{SESSION}/more",
        "metadir/a_b/session_2026-13-01_00-00-00_000000",
        f"cluster-metadata/raycluster/default_rc/{SESSION}/",
        f"cluster-metadata/raycluster/a_b_c/{SESSION}",
        f"cluster-metadata/daemonset/a_b_c/{SESSION}",
        f"cluster-metadata/rayjob/a_b/{SESSION}",
        f"cluster-history/raycluster/default/rc/{SESSION}/{NODE}/logs/",
        f"cluster-history/raycluster/default/rc/{SESSION}/{NODE}/logs/../x",
        f"cluster-history/raycluster/default/rc/{SESSION}/NODE/logs/x",
        f"cluster-history/raycluster/default/rc/{SESSION}/{NODE}/other/x",
        f"cluster-history/raycluster/default/rc/{SESSION}/{NODE}/node_events/{NODE}.jsonl",
        f"cluster-history/raycluster/default/rc/{SESSION}/{NODE}/node_events/ab-2026-08-19-10-1.jsonl",
        f"cluster-history/raycluster/default/rc/{SESSION}/fetched_endpoints/other",
        f"rc_default/{SESSION}/job_events/{NODE}-2026-01-06-07",
        f"history/v1/sessions/default/rc/{SESSION}/session.json",
    ],
)
def test_foreign_and_hostile_keys_are_none_of_ours(key: str) -> None:
    """Placeholders, wrong depths, impossible names: None, never an exception."""
    for parse in (parse_marker_key, parse_event_key, parse_log_key, parse_endpoint_key):
        assert parse(key) is None


@given(
    key=st.one_of(st.text(max_size=60), st.lists(st.text(max_size=12), max_size=9).map("/".join))
)
def test_no_text_makes_a_parser_fail(key: str) -> None:
    """Buckets hold anything."""
    for parse in (parse_marker_key, parse_event_key, parse_log_key, parse_endpoint_key):
        parse(key)
    parse_data_session(key)


@given(one=names.SIMILAR_REFS, other=names.SIMILAR_REFS)
def test_no_session_lies_within_anothers_prefix(one: SessionRef, other: SessionRef) -> None:
    """Different sessions have different markers, and folders of which none holds the other."""
    for build in (kuberay_session_prefix, marker_key):
        assert build(one).startswith(build(other)) == (one == other)
    for build in (legacy_session_prefix, legacy_marker_key):
        same = (one.namespace, one.cluster) == (other.namespace, other.cluster)
        assert build(one).startswith(build(other)) == same


def test_similar_names_are_kept_apart() -> None:
    """The peer's GCS search for `foo` also found `foo-2`."""
    foo, foo2 = SessionRef("ns", "foo", SESSION), SessionRef("ns", "foo-2", SESSION)
    key = log_key(foo2, NODE, "x")
    assert not key.startswith(kuberay_session_prefix(foo))
    owned = SessionRef("ns", "b", SESSION, "rayjob", "a")
    assert kuberay_session_prefix(owned) != kuberay_session_prefix(SessionRef("a", "b", SESSION))


@pytest.mark.parametrize(
    "build",
    [
        lambda: SessionRef("default", "a_b", SESSION),
        lambda: SessionRef("default", "..", SESSION),
        lambda: SessionRef("", "rc", SESSION),
        lambda: SessionRef("a/b", "rc", SESSION),
        lambda: SessionRef("default", "rc", "session_latest"),
        lambda: SessionRef("default", "rc", f"{SESSION}/x"),
        lambda: SessionRef("default", "rc", f"{SESSION}\n"),
        lambda: SessionRef("default", "rc", "session_2026-02-30_00-00-00_000000"),
        lambda: SessionRef("default", "rc", SESSION, "raycluster", "x"),
        lambda: SessionRef("default", "rc", SESSION, "rayjob", ""),
        lambda: SessionRef("default", "rc", SESSION, "", "x"),
        lambda: SessionRef("default", "rc", SESSION, "rayjob", "../x"),
        lambda: marker_key(SessionRef("name_space", "rc", SESSION)),
        lambda: kuberay_session_prefix(SessionRef("name_space", "rc", SESSION)),
        lambda: log_key(PLAIN, NODE, "../x"),
        lambda: log_key(PLAIN, NODE, "/etc/passwd"),
        lambda: log_key(PLAIN, NODE, "a//b"),
        lambda: log_key(PLAIN, NODE, ""),
        lambda: log_key(PLAIN, NODE, "a\0b"),
        lambda: log_key(PLAIN, NODE, "\udcff"),
        lambda: log_key(PLAIN, NODE, "x" * 1000),
        lambda: log_key(PLAIN, "..", "x"),
        lambda: log_key(PLAIN, "ABCDEF", "x"),
        lambda: log_key(PLAIN, "", "x"),
        lambda: event_key(PLAIN, NODE, ("job_events", "AQAAAA=="), 1),
        lambda: event_key(PLAIN, NODE, ("job_events", ".."), 1),
        lambda: event_key(PLAIN, NODE, "job_events", 1),
        lambda: event_key(PLAIN, NODE, "logs", 1),
        lambda: event_key(PLAIN, NODE, ("node_events", "01000000"), 1),
        lambda: endpoint_key(PLAIN, "no-slash"),
        lambda: endpoint_key(PLAIN, "/"),
    ],
)
def test_hostile_parts_are_refused(build: object) -> None:
    """No key is built that leads elsewhere or that a reader would take for another."""
    assert callable(build)
    with pytest.raises(InvalidKeyError):
        build()
