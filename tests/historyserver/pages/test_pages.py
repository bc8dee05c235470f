"""Our own pages: the list of sessions, a session's facts, messages."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from historyserver.folding.session_state import SessionState
from historyserver.pages.listing import duration_text, size_text
from historyserver.reading.state import StateReason
from storage.backend import Backend
from storage.layout import SessionRef
from tests.historyserver.asking import Asker
from tests.historyserver.hand_made import (
    PREFIX,
    SESSION,
    START_MS,
    HandMade,
    app_of,
    entry_of,
)

HTML = {"Accept": "text/html,application/xhtml+xml"}


class Links(HTMLParser):
    """Collects the addresses of a page and what is in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the tag and its address."""
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


def page(ask: Asker, path: str = "/") -> str:
    """A page's HTML."""
    response = ask.get(path, headers=HTML)
    assert response.status_code == 200
    return response.get_data(as_text=True)


def sessions(backend: Backend, count: int) -> Asker:
    """A server with many sessions."""
    entries = [
        entry_of(
            SessionRef(f"team-{n % 3}", f"cluster-{n:03d}", SESSION),
            start_ms=START_MS + n * 1000,
            end_ms=START_MS + n * 1000 + (n * 7919 % 500) * 1000,
            state=SessionState.UNCLEAN if n % 10 == 0 else SessionState.ENDED,
        )
        for n in range(count)
    ]
    return Asker(app_of(backend, entries=entries))


def clusters(html: str) -> list[str]:
    """The clusters in the order of the page."""
    return re.findall(r">(cluster-\d+)</a>", html)


def test_the_list_shows_what_a_reader_chooses_by(backend: Backend) -> None:
    """Namespace, cluster, owner, start, duration, state, size; and the link that lasts."""
    owned = SessionRef("ml", "train-x7k2p", SESSION, "rayjob", "train")
    html = page(Asker(app_of(backend, entries=[entry_of(owned)])))
    for text in ("train-x7k2p", "ml", "rayjob", "2026-11-30 21:46:10", "1m 0s", "Ended", "1.4 MiB"):
        assert text in html
    assert f"./s/ml/rayjob/train/{SESSION}/" in Links(html).links


@pytest.mark.parametrize("reason", StateReason)
def test_the_list_says_how_the_state_is_known(backend: Backend, reason: StateReason) -> None:
    """For every sign there is, in words, as the title of the state."""
    html = page(Asker(app_of(backend, entries=[entry_of(reason=reason)])))
    (title,) = re.findall(r'<span class="state ended" title="([^"]*)">', html)
    assert " " in title


def test_the_list_needs_no_javascript_and_loads_nothing_from_elsewhere(backend: Backend) -> None:
    """Every address is relative, so any prefix in front works."""
    found = Links(page(sessions(backend, 3)))
    assert "script" not in found.tags
    assert all(not re.match(r"(https?:)?//|/", link) for link in found.links)


def test_pages_follow_each_other_without_gap_or_repetition(backend: Backend) -> None:
    """By the links that the pages give."""
    ask = sessions(backend, 120)
    seen: list[str] = []
    path = "/"
    while path:
        html = page(ask, path)
        seen += clusters(html)
        match = re.search(r'rel="next" href="([^"]+)"', html)
        path = "/" + match[1].replace("&amp;", "&") if match else ""
    assert seen == [f"cluster-{n:03d}" for n in reversed(range(120))]
    assert "101-120 of 120" in html
    assert "First page" in html


def test_search_and_sort_are_links_that_keep_each_other(backend: Backend) -> None:
    """Words must all match; the order is by the column's value."""
    ask = sessions(backend, 60)
    html = page(ask, "/?q=UNCLEAN+team-0&sort=name")
    assert clusters(html) == ["cluster-000", "cluster-030"]
    assert 'aria-sort="ascending"' in html
    assert any("q=UNCLEAN+team-0" in link and "sort=-name" in link for link in Links(html).links)
    assert "Nothing matches" in page(ask, "/?q=nowhere")


@pytest.mark.parametrize(
    "query", ["sort=evil", "after=%00", "after=bm9uZQ", "n=-1", "n=9&after=x", "q=" + "x" * 5000]
)
def test_a_query_that_makes_no_sense_shows_the_list(backend: Backend, query: str) -> None:
    """An old or mangled link still helps."""
    assert 'class="frame' in page(sessions(backend, 2), f"/?{query}")


def test_nothing_from_storage_or_the_query_is_markup(backend: Backend) -> None:
    """Names are escaped wherever they come from."""
    html = page(sessions(backend, 1), "/?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_an_empty_store_says_what_to_expect(backend: Backend) -> None:
    """The first minute of a new user."""
    assert "No sessions are stored yet" in page(Asker(app_of(backend)))


def test_a_session_with_losses_is_marked_and_explained(
    backend: Backend, hand_made: HandMade
) -> None:
    """In the list, and in words on its own page."""
    opened = hand_made.opened(dropped_events=12, log_gaps=2, damage={"torn_line": 3})
    ask = Asker(app_of(backend, opened))
    assert "has gaps" in page(ask)
    html = page(ask, PREFIX.replace("/s/", "/about/") + "/")
    assert "This session is not complete" in html
    for text in ("12 events.", "2 parts of log files", "(torn line): 3 places", "2.55.1"):
        assert text in html
    assert f"../../../../../s/ml/raycluster/v170/{SESSION}/" in Links(html).links


def test_a_whole_session_is_not_marked(backend: Backend, hand_made: HandMade) -> None:
    """No warning without a reason."""
    ask = Asker(app_of(backend, hand_made.opened()))
    assert "has gaps" not in page(ask)
    assert "not complete" not in page(ask, PREFIX.replace("/s/", "/about/") + "/")


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/nothing/here", "This did not work"),
        (f"/s/ml/raycluster/gone/{SESSION}/", "No such session"),
        ("/s/ml/pod/x/session_1/", "No such session"),
        (f"/about/ml/raycluster/gone/{SESSION}/", "No such session"),
    ],
)
def test_a_person_gets_a_page_for_an_error(
    backend: Backend, hand_made: HandMade, path: str, title: str
) -> None:
    """With a way back and its stylesheet, at any depth."""
    ask = Asker(app_of(backend, hand_made.opened()))
    response = ask.get(path, headers=HTML)
    html = response.get_data(as_text=True)
    assert response.status_code in (400, 404)
    assert f"<h1>{title}</h1>" in html
    style = next(link for link in Links(html).links if link.endswith("style.css"))
    assert ask.get(_joined(path, style)).status_code == 200


def _joined(path: str, relative: str) -> str:
    folders = path.rpartition("/")[0].split("/")
    while relative.startswith("../"):
        folders, relative = folders[:-1], relative[3:]
    return "/".join([*folders, relative.removeprefix("./")])


def test_assets_are_ours_only(backend: Backend) -> None:
    """No path leads out of the folder."""
    ask = Asker(app_of(backend))
    assert ask.get("/assets/style.css").content_type.startswith("text/css")
    for name in ("..%2flisting.py", "%2e%2e/listing.py", "nope.css", "style.css%00.css", "x.py"):
        assert ask.get(f"/assets/{name}").status_code == 404


def test_durations_and_sizes_are_readable() -> None:
    """Two units at most, three digits at most."""
    assert duration_text(0) == "0s"
    assert duration_text(59_999) == "59s"
    assert duration_text(3_600_000 * 25) == "1d 1h"
    assert duration_text(3_725_000) == "1h 2m"
    assert [size_text(n) for n in (None, 0, 999, 1500, 10**9, 10**15)] == [
        "",
        "0 B",
        "999 B",
        "1.5 KiB",
        "954 MiB",
        "909 TiB",
    ]


def test_the_styles_have_both_themes() -> None:
    """Dark is not an afterthought: every colour has its dark one."""
    css = Path("historyserver/pages/static/style.css")
    text = (Path(__file__).parents[3] / css).read_text()
    light, dark = text.split("prefers-color-scheme: dark", 1)
    names = set(re.findall(r"(--[a-z-]+):", light))
    assert names <= set(re.findall(r"(--[a-z-]+):", dark))
    assert not re.findall(r"#[0-9a-f]{3,6}", dark.split("* { box-sizing")[1])
