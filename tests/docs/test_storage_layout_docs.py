"""docs/storage-layout.md shows the keys that the code builds, and names the documents' structs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storage import layout, wire

PAGE = Path(__file__).parents[2] / "docs" / "storage-layout.md"
TEXT = PAGE.read_text(encoding="utf-8")

SESSION = "session_2026-08-18_09-00-01_000123_1"
PLAIN = layout.SessionRef("ml", "v170", SESSION)
OWNED = layout.SessionRef("ml", "v170", SESSION, "rayjob", "nightly")
NODE = "c3" * 28
NS = 1755507601000000000

FILLED = {
    "P": "cluster-history/raycluster/ml/v170",
    "{ns}": "ml",
    "{cluster}": "v170",
    "{session}": SESSION,
    "{owner kind}": "rayjob",
    "{owner}": "nightly",
    "{node}": NODE,
    "{job}": "01000000",
    "{YYYY-MM-DD-HH}": "2025-08-18-09",
    "{YYYY-MM-DD}": "2026-08-18",
    "{unix ns}": str(NS),
    "{path}": "events/event_GCS.log",
    "{name}": "restful__timezone",
    "{12 digits}": "000000000007",
    "{escaped request}": "%2Ftimezone",
    "{schema}": "1",
    "{fingerprint}": "00ff",
}


def _filled(template: str) -> str:
    if template.startswith("P/"):
        template = FILLED["P"] + template[1:]
    for placeholder, value in FILLED.items():
        if placeholder != "P":
            template = template.replace(placeholder, value)
    return template


@pytest.mark.parametrize(
    "key",
    [
        layout.marker_key(PLAIN),
        layout.marker_key(OWNED),
        layout.legacy_marker_key(PLAIN),
        layout.event_key(PLAIN, NODE, "node_events", NS),
        layout.event_key(PLAIN, NODE, ("job_events", "01000000"), NS),
        layout.log_key(PLAIN, NODE, "events/event_GCS.log"),
        layout.endpoint_key(PLAIN, "/timezone"),
    ],
)
def test_keys_of_kuberays_tree(key: str) -> None:
    """Each template of the page, filled in, is what the code builds."""
    assert key in {_filled(template) for template in re.findall(r"`([^`\n]+)`", TEXT)}


def test_keys_of_our_tree() -> None:
    """The block of the page, filled in, is what the code builds."""
    (block,) = re.findall(r"```\n(history/v1/sessions/.*?)```", TEXT, re.DOTALL)
    first, *rest = block.splitlines()
    shown = {
        _filled((first if line.startswith(" ") else "") + line.split()[0])
        if "escaped" not in line
        else _filled(first + "snapshots/{escaped request}.json.zst")
        for line in (re.sub(r"\{12 digits\}", "000000000007", line) for line in rest)
    }
    assert shown == {
        layout.session_json_key(PLAIN),
        layout.hot_segment_key(PLAIN, NODE, 7),
        layout.manifest_key(PLAIN, NODE),
        layout.snapshot_key(PLAIN, "/timezone"),
        layout.end_key(PLAIN),
        layout.compiled_key(PLAIN, 1, "00ff"),
        layout.catalogue_key(PLAIN),
    }


def test_documents_and_schema() -> None:
    """Every struct with a schema of its own is in the table."""
    documents = {
        name
        for name, kind in vars(wire).items()
        if isinstance(kind, type) and "schema" in getattr(kind, "__struct_fields__", ())
    }
    named = set(re.findall(r"\| `(\w+)`(?: \(zstd\))? \|", TEXT))
    named |= set(re.findall(r"\| catalogue entry \| `(\w+)`", TEXT))
    assert {name for name in documents if not name.startswith("_")} <= named
    assert f"`schema` (now {wire.SCHEMA})" in TEXT
