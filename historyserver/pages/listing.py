"""The list of sessions as a page shows it: searched, sorted, cut into pages, made readable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from historyserver.catalogue import SessionEntry, SortKey, page
from historyserver.folding.session_state import SessionState
from historyserver.http.links import about_path, session_path
from historyserver.reading.state import StateReason

PAGE_ROWS = 50
MAX_SEARCH_CHARS = 200
MAX_CURSOR_CHARS = 2000


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a reader asked of the list; anything that cannot be read falls back to the default."""

    search: str = ""
    sort: str = "start"
    descending: bool = True
    cursor: str = ""
    before: int = 0
    """How many rows the pages before this one had; only shown, never trusted."""

    @classmethod
    def of(cls, args: Mapping[str, str]) -> ListQuery:
        """Read a query string: `q`, `sort` (`-` in front for descending), `after` and `n`."""
        sort = args.get("sort", "-start")
        name = sort.removeprefix("-")
        if name not in list(SortKey):
            name, sort = "start", "-start"
        before = args.get("n", "")
        cursor = args.get("after", "")
        return cls(
            search=args.get("q", "").strip()[:MAX_SEARCH_CHARS],
            sort=name,
            descending=sort.startswith("-"),
            cursor=cursor[:MAX_CURSOR_CHARS],
            before=int(before[:9]) if cursor and before.isascii() and before.isdigit() else 0,
        )

    @property
    def sort_text(self) -> str:
        """As the query string has it."""
        return ("-" if self.descending else "") + self.sort

    def link(self, **changes: str | int) -> str:
        """The address of the list's first page, with something changed."""
        values: dict[str, str | int] = {"q": self.search, "sort": self.sort_text, **changes}
        kept = {name: value for name, value in values.items() if value not in ("", "-start")}
        return "?" + urlencode(kept) if kept else "./"


@dataclass(frozen=True, slots=True)
class Column:
    """A column's head: its link sorts by it."""

    title: str
    link: str
    aria_sort: str
    classes: str


@dataclass(frozen=True, slots=True)
class Row:
    """One session, readable."""

    cluster: str
    session: str
    namespace: str
    owner_kind: str
    owner_name: str
    start: str
    start_iso: str
    duration: str
    state: str
    state_text: str
    state_reason: str
    size: str
    link: str
    about: str
    warning: str


@dataclass(frozen=True, slots=True)
class ListPage:
    """All that the template needs."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    total: int
    first: int
    last: int
    search: str
    sort: str
    sort_text: str
    descending: bool
    first_link: str
    next_link: str


def list_page(
    entries: Sequence[SessionEntry],
    query: ListQuery,
    *,
    now_ms: int,
    warning_of: Callable[[SessionEntry], str] = lambda entry: "",
) -> ListPage:
    """Make the page that the query asks for. Raises `PagingError` for a broken cursor."""
    found = page(
        entries,
        search=query.search,
        sort=query.sort,
        descending=query.descending,
        limit=PAGE_ROWS,
        cursor=query.cursor,
    )
    last = query.before + len(found.entries)
    cursor = found.next_cursor
    return ListPage(
        rows=tuple(_row(entry, now_ms, warning_of(entry)) for entry in found.entries),
        columns=tuple(_column(query, *column) for column in _COLUMNS),
        total=found.total,
        first=query.before + 1 if found.entries else 0,
        last=last,
        search=query.search,
        sort=query.sort,
        sort_text=query.sort_text,
        descending=query.descending,
        first_link=query.link() if query.cursor else "",
        next_link=query.link(after=cursor, n=last) if cursor else "",
    )


def duration_text(milliseconds: int) -> str:
    """The two largest units, as `2h 5m`."""
    seconds = max(0, milliseconds) // 1000
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    for at, (name, size) in enumerate(units):
        if seconds >= size:
            rest = units[at + 1 : at + 2]
            text = f"{seconds // size}{name}"
            return text + "".join(f" {seconds % size // s}{n}" for n, s in rest)
    return "0s"


def size_text(size_bytes: int | None) -> str:
    """With three digits at most; empty when it is not known."""
    if size_bytes is None:
        return ""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1000 or unit == "TiB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return ""


def time_text(moment_ms: int) -> str:
    """UTC, to the second; empty when it is not known."""
    if not moment_ms:
        return ""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


_STATE_TEXTS = {
    SessionState.RUNNING: "Running",
    SessionState.ENDED: "Ended",
    SessionState.UNCLEAN: "Ended uncleanly",
}
_REASON_TEXTS = {
    StateReason.END_MARKER: "its collector said that it ended",
    StateReason.FRESH_MANIFEST: "its collector gave a sign of life lately",
    StateReason.STALE_MANIFEST: "its collector gave no sign of life any more, and told no end",
    StateReason.HEAD_LOGS: "its head's logs were stored, which happens at the end",
    StateReason.FRESH_OBJECTS: "something was stored lately",
    StateReason.MARKED_AND_QUIET: "nothing was stored lately",
    StateReason.UNMARKED_AND_QUIET: "nothing was stored lately, and it was never marked",
    StateReason.NOT_CHECKED_YET: "taken from its marker; not looked at closely yet",
}


def _duration_ms(entry: SessionEntry, now_ms: int) -> int:
    if not entry.start_ms:
        return 0
    if entry.end_ms:
        return entry.end_ms - entry.start_ms
    return now_ms - entry.start_ms if entry.state is SessionState.RUNNING else 0


_COLUMNS = (
    ("Cluster and session", "name", ""),
    ("Namespace", "", ""),
    ("Owner", "", "wide"),
    ("Started", "start", ""),
    ("Duration", "duration", "number"),
    ("State", "state", ""),
    ("Size", "size", "number wide"),
)


def _column(query: ListQuery, title: str, sort: str, classes: str) -> Column:
    if not sort:
        return Column(title=title, link="", aria_sort="", classes=classes)
    chosen = query.sort == sort
    descending = not query.descending if chosen else sort in ("start", "duration", "size")
    return Column(
        title=title,
        link=query.link(sort=("-" if descending else "") + sort),
        aria_sort=("descending" if query.descending else "ascending") if chosen else "",
        classes=classes,
    )


def _row(entry: SessionEntry, now_ms: int, warning: str) -> Row:
    ref = entry.ref
    duration_ms = _duration_ms(entry, now_ms)
    start = time_text(entry.start_ms)
    return Row(
        cluster=ref.cluster,
        session=ref.session,
        namespace=ref.namespace,
        owner_kind=ref.owner_kind,
        owner_name=ref.owner_name,
        start=start,
        start_iso=start.replace(" ", "T") + "Z" if start else "",
        duration=duration_text(duration_ms) if duration_ms else "",
        state=entry.state.value,
        state_text=_STATE_TEXTS[entry.state],
        state_reason=_REASON_TEXTS[entry.reason],
        size=size_text(entry.size_bytes),
        link=session_path(ref),
        about=about_path(ref),
        warning=warning,
    )
