"""Makes docs/configuration.md from the tables of options: `python -m tests.docs.configuration`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from collector.options import OPTIONS as COLLECTOR_OPTIONS
from historyserver.settings import KUBERAY_OPTIONS, SERVER_OPTIONS
from storage.program.options import Option, markdown
from storage.settings import STORAGE_OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

<!-- Made by `python -m tests.docs.configuration` from the programs' own tables. Do not edit. -->

Every setting is a flag (`--name=value` or `--name value`), and most have environment names too.
A flag wins over the environment, and that over the default; an empty environment value counts as not set.
Names in one cell are the same setting: KubeRay's releases had different ones, and all of them work.
Two names with different values, an unknown flag or a bad value end the program with exit status 2 and one line that says what to do.
Durations are written `250ms`, `30s`, `5m` or `1h30m`, sizes `100Mi`, `2Gi` or `1G`.
"""

SECTIONS: tuple[tuple[str, str, Sequence[Option]], ...] = (
    ("Storage", "For the collector and the history server alike.", STORAGE_OPTIONS),
    ("Collector", "`collector --role=Head|Worker ...`", COLLECTOR_OPTIONS),
    ("History server", "`historyserver ...`", SERVER_OPTIONS),
    (
        "History server: accepted for KubeRay's sake",
        "A manifest made for KubeRay's server starts this one too; these do nothing.",
        KUBERAY_OPTIONS,
    ),
)


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    shared = {option.name for option in STORAGE_OPTIONS}
    for title, text, options in SECTIONS:
        own = [o for o in options if options is STORAGE_OPTIONS or o.name not in shared]
        yield f"## {title}\n\n{text}\n\n{markdown(own)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
