"""Hypothesis strategies for what keys are made of."""

from __future__ import annotations

from datetime import datetime

from hypothesis import strategies as st

from storage.layout import SessionRef

_WORDS = st.lists(st.text("az09", min_size=1, max_size=4), min_size=1, max_size=3)
DNS_NAMES = st.one_of(_WORDS.map("-".join), _WORDS.map(".".join))
FREE_NAMES = st.one_of(DNS_NAMES, _WORDS.map("_".join))
SESSIONS = st.builds(
    lambda at, pid: f"session_{at:%Y-%m-%d_%H-%M-%S_%f}{pid}",
    st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2099, 1, 1)),  # noqa: DTZ001
    st.sampled_from(["", "_1", "_4711", "_1234567890"]),
)
STANDALONE_REFS = st.builds(SessionRef, DNS_NAMES, DNS_NAMES, SESSIONS)
OWNED_REFS = st.builds(
    SessionRef, DNS_NAMES, DNS_NAMES, SESSIONS, st.sampled_from(["rayjob", "rayservice"]), DNS_NAMES
)
REFS = st.one_of(STANDALONE_REFS, OWNED_REFS)
SIMILAR_REFS = st.builds(
    lambda namespace, cluster, owner: SessionRef(
        namespace, cluster, "session_2026-08-18_09-00-01_000123_1", *owner
    ),
    st.sampled_from(["a", "b", "a-b"]),
    st.sampled_from(["a", "b", "a-b", "b-2"]),
    st.sampled_from([("", ""), ("rayjob", "a"), ("rayjob", "b"), ("rayservice", "a")]),
)
"""Few and alike, so that two of them would often meet if keys could."""
LEGACY_REFS = st.builds(SessionRef, FREE_NAMES, DNS_NAMES, SESSIONS)
NODES = st.binary(min_size=28, max_size=28).map(bytes.hex)
JOBS = st.binary(min_size=4, max_size=4).map(bytes.hex)
CREATED_NS = st.integers(min_value=10**18, max_value=4 * 10**18)
PATHS = st.lists(
    st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"),
        min_size=1,
        max_size=20,
    ).filter(lambda part: part not in {".", ".."}),
    min_size=1,
    max_size=4,
).map("/".join)
REQUESTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
"""Any text, as a request's path with its query."""
