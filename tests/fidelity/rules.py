"""The differences that are known, each with the reason why the value cannot be the same."""

from __future__ import annotations

from tests.fidelity.comparing import Rule

RULES: tuple[Rule, ...] = ()
