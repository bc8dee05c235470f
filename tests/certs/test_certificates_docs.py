"""docs/certificates.md says what the program does."""

from __future__ import annotations

import yaml

from certs.metrics import PREFIX, CertsMetrics
from tests.certs.certs_process import RULES, cluster_rules
from tests.certs.settings_table import MARK, PAGE, table

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_settings_are_those_of_the_program() -> None:
    """After a change: python -m tests.certs.settings_table."""
    assert TEXT.partition(MARK)[2].strip() == table().strip()


def test_the_rights_are_those_of_the_tests() -> None:
    """With exactly these, `certs` was seen to work on a real API server."""
    block = TEXT.partition("<!-- rights -->\n```yaml\n")[2].partition("```")[0]
    assert yaml.safe_load(block) == [*RULES, *cluster_rules("NAMESPACE")]


def test_every_metric_is_explained() -> None:
    """By its name on the metrics page."""
    for family in CertsMetrics().registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        name = family.name.removeprefix(f"{PREFIX}_") + suffix
        assert f"`{name}" in TEXT
