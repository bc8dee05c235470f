"""docs/configuration.md says what the programs take."""

from __future__ import annotations

import re

from storage.program.options import load
from storage.settings import STORAGE_OPTIONS
from tests.docs.configuration import PAGE, SECTIONS, page
from webhook.settings_table import rows


def test_the_page_is_what_the_tables_make() -> None:
    """After a change of options: python -m tests.docs.configuration."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_no_option_and_no_name_is_left_out() -> None:
    """Each option's names stand on the page, each with a meaning."""
    text = PAGE.read_text(encoding="utf-8")
    for _, _, options in SECTIONS:
        for option in options:
            assert option.help
            for name in (*(f"--{flag}" for flag in (option.name, *option.aliases)), *option.env):
                assert f"`{name}`" in text


def test_no_name_means_two_things() -> None:
    """Within a program, flags and environment names are unique."""
    for title, _, options in SECTIONS:
        names = [name for o in options for name in (o.name, *o.aliases, *o.env)]
        assert len(names) == len(set(names)), title


def test_documented_defaults_load() -> None:
    """The defaults of the page are values that the programs take."""
    for title, _, options in SECTIONS:
        required = {option.env[0]: "local" for option in options if option.required and option.env}
        required.update({o.env[0]: o.choices[0] for o in options if o.required and o.choices})
        values = load(options, argv=[], env=required)
        assert len(values) == len(options), title
    assert re.search(r"`--storage-backend`<br>`--runtime-class-name`", page())
    assert STORAGE_OPTIONS[0].required


def test_every_setting_of_the_webhook_is_there() -> None:
    """With its names in file, flags and environment, and a meaning."""
    text = PAGE.read_text(encoding="utf-8")
    for row in rows():
        assert row.meaning
        for name in (row.name, f"--{row.flag}", row.env):
            assert f"`{name}`" in text
