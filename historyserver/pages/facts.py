"""What is known of one session: the facts and the warnings of its page."""

from __future__ import annotations

from historyserver.compiled.meta import Meta
from historyserver.pages.listing import duration_text, time_text


def warnings_of(meta: Meta) -> list[str]:
    """Why the session may not show all that happened, in words; empty when it is whole."""
    warnings = []
    if meta.dropped_events:
        lost = _counted(meta.dropped_events, "event")
        warnings.append(f"Lost before they reached storage: {lost}.")
    if meta.quarantined_events:
        aside = _counted(meta.quarantined_events, "event")
        warnings.append(f"Set aside because they could not be read: {aside}.")
    if meta.log_gaps:
        warnings.append(f"Not stored: {_counted(meta.log_gaps, 'part')} of log files.")
    warnings += [
        f"Damaged in storage ({reason.replace('_', ' ')}): {_counted(count, 'place')}; "
        "the rest was read."
        for reason, count in meta.damage.items()
    ]
    return warnings


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def facts_of(meta: Meta) -> list[tuple[str, str]]:
    """Name and value of what the page shows, without those that are not known."""
    end = time_text(meta.end_ms)
    if end and not meta.is_end_known:
        end = f"about {end} (no end marker)"
    prepared = time_text(meta.compiled_ms)
    seconds = meta.compile_duration_ms / 1000
    facts = [
        ("Namespace", meta.namespace),
        ("Owner", f"{meta.owner_name} ({meta.owner_kind})" if meta.owner_name else ""),
        ("State", meta.state),
        ("Started (UTC)", time_text(meta.start_ms)),
        ("Ended (UTC)", end),
        ("Duration", duration_text(meta.end_ms - meta.start_ms) if meta.end_ms else ""),
        ("Ray", meta.ray_version),
        ("Python", meta.python_version),
        ("Storage layout", meta.generation),
        *((f"{name.replace('_', ' ').capitalize()}", f"{n:,}") for name, n in meta.counts.items()),
        ("Prepared (UTC)", f"{prepared}, in {seconds:.1f} s" if prepared else ""),
    ]
    facts += [
        (f"Left out: {reason.replace('_', ' ')}", f"{count:,}")
        for reason, count in meta.skipped.items()
    ]
    return [(name, value) for name, value in facts if value]
