"""The table of settings in docs/certificates.md: `python -m tests.certs.settings_table`."""

from __future__ import annotations

from pathlib import Path

from certs.settings_sources import rows

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"
MARK = "<!-- Made by `python -m tests.certs.settings_table`. -->\n"


def table() -> str:
    """As Markdown."""
    lines = ["| Setting | Default | Meaning |", "|---|---|---|"]
    for row in rows():
        default = f"`{row.default_text}`" if row.default_text else ""
        lines.append(f"| `{row.name}` | {default} | {row.meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{before}{MARK}\n{table()}", encoding="utf-8")
