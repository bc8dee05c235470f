"""Makes docs/configuration.md from the tables of options: `python -m tests.docs.configuration`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from collector.options import OPTIONS as COLLECTOR_OPTIONS
from historyserver.settings import KUBERAY_OPTIONS, SERVER_OPTIONS
from storage.program.options import Option, markdown
from storage.settings import STORAGE_OPTIONS
from webhook.settings_sources import CONFIG_ENV, CONFIG_FLAG
from webhook.settings_table import Row, rows

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


WEBHOOK = f"""\
## Webhook

`webhook serve ...`, and the same settings for `webhook inject` and `webhook explain`.

The settings are also the names of a YAML file, given by `--{CONFIG_FLAG}=FILE` or `{CONFIG_ENV}`: `collector.image` is `image` in the map `collector`.
Lists and maps are written in YAML, as `--service-account-labels='{{team: ml}}'`; lists of texts also with commas.

| Setting in the file | Option and environment | Default | Meaning |
|---|---|---|---|"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_sections(), WEBHOOK, *_webhook_rows(), ""])


def _sections() -> Iterator[str]:
    shared = {option.name for option in STORAGE_OPTIONS}
    for title, text, options in SECTIONS:
        own = [o for o in options if options is STORAGE_OPTIONS or o.name not in shared]
        yield f"## {title}\n\n{text}\n\n{markdown(own)}"


def _webhook_rows() -> Iterator[str]:
    for row in rows():
        default = f"`{row.default_text}`" if row.default_text else ""
        names = f"`--{row.flag}`<br>`{row.env}`"
        yield f"| `{row.name}` | {names} | {default} | {_meaning(row)} |"


def _meaning(row: Row) -> str:
    choices = ", ".join(f"`{choice}`" for choice in row.choices)
    return f"{row.meaning} One of {choices}." if choices else row.meaning


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
