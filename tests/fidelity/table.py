"""The result as a table: Markdown for docs/fidelity.md, and totals for the tests. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.fidelity.comparing import Compared, Difference, Verdict


@dataclass(slots=True)
class Row:
    """The totals of one endpoint."""

    endpoint: str
    requests: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def fields(self) -> int:
        """How many fields the live answers have."""
        return sum(self.verdicts.values()) - self.verdicts[Verdict.EXTRA]

    @property
    def share(self) -> float:
        """The equal part of the live fields, 0 to 1."""
        return self.verdicts[Verdict.EQUAL] / self.fields if self.fields else 1.0


def rows(compared: Iterable[Compared]) -> list[Row]:
    """One row per endpoint, in the order asked."""
    by_endpoint: dict[str, Row] = {}
    for each in compared:
        row = by_endpoint.setdefault(each.endpoint, Row(each.endpoint))
        row.requests += 1
        row.verdicts[Verdict.EQUAL] += each.equal
        for difference in each.differences:
            row.verdicts[difference.verdict] += 1
            row.reasons[difference.reason or "NOT EXPLAINED"] += 1
    return list(by_endpoint.values())


def total(of: Sequence[Row]) -> Row:
    """The sum of all rows."""
    result = Row("all")
    for row in of:
        result.requests += row.requests
        result.verdicts.update(row.verdicts)
        result.reasons.update(row.reasons)
    return result


def _line(row: Row) -> str:
    counts = " | ".join(
        f"{row.verdicts[verdict]:,}"
        for verdict in (Verdict.EQUAL, Verdict.DIFFERS, Verdict.MISSING)
    )
    name = row.endpoint.replace("|", "\\|")
    extra = f"{row.verdicts[Verdict.EXTRA]:,}"
    return f"| `{name}` | {row.requests} | {row.fields:,} | {counts} | {extra} | {row.share:.1%} |"


def markdown(compared: Sequence[Compared]) -> str:
    """The table of endpoints, then the reasons with their counts."""
    table = rows(compared)
    lines = [
        "| endpoint | requests | fields | equal | differs | missing | extra | share |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(_line(row) for row in table),
        _line(total(table)),
        "",
        "## Why fields are not equal",
        "",
        "| reason | fields | where |",
        "|---|---:|---|",
        *_reasons(compared),
    ]
    return "\n".join(lines) + "\n"


def _reasons(compared: Sequence[Compared]) -> list[str]:
    counts: Counter[str] = Counter()
    where: dict[str, Counter[str]] = {}
    for each in compared:
        for difference in each.differences:
            reason = difference.reason or "NOT EXPLAINED"
            counts[reason] += 1
            where.setdefault(reason, Counter())[_field_name(difference)] += 1
    lines = []
    for reason, count in counts.most_common():
        names = [f"`{name}`" for name, _ in where[reason].most_common(6)]
        more = "" if len(where[reason]) <= 6 else f" and {len(where[reason]) - 6} more"
        lines.append(f"| {reason} | {count:,} | {', '.join(names)}{more} |")
    return lines


def _field_name(difference: Difference) -> str:
    """The last parts of a field's path: enough to find it."""
    parts = [part for part in difference.field.split(".") if part != "*"]
    return ".".join(parts[-2:])


def listing(differences: Iterable[Difference], limit: int = 60) -> str:
    """Differences as lines, for a failing test and for the command line."""
    groups: dict[tuple[str, str, Verdict], list[Difference]] = {}
    for difference in differences:
        key = (difference.endpoint, difference.field, difference.verdict)
        groups.setdefault(key, []).append(difference)
    lines = []
    for (endpoint, path, verdict), group in list(groups.items())[:limit]:
        first = group[0]
        lines.append(
            f"{endpoint}  {path}: {verdict} x{len(group)}; "
            f"live {_short(first.live)} ours {_short(first.ours)}"
        )
    if len(groups) > limit:
        lines.append(f"... and {len(groups) - limit} more fields")
    return "\n".join(lines)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
