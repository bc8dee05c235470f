"""A dead session in a real browser, by its link: Ray's own dashboard and our list."""

from __future__ import annotations

import pytest

from tests.browser.conftest import SCREENSHOTS, Served
from tests.browser.plans import DASHBOARD_PAGES, dashboard_visits, list_visit
from tests.browser.visiting import Seen, run

pytestmark = [pytest.mark.ray, pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

PAGES = ["sessions", *DASHBOARD_PAGES]


@pytest.fixture(scope="module")
def seen(served: Served) -> dict[str, Seen]:
    """All pages, visited once."""
    visits = [list_visit(served.server, served.facts), *dashboard_visits(served.url, served.facts)]
    return {each.name: each for each in run(visits, SCREENSHOTS / "link")}


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_what_the_session_had(seen: dict[str, Seen], page: str) -> None:
    """The expected texts become visible."""
    assert seen[page].missing == [], seen[page].text


@pytest.mark.parametrize("page", PAGES)
def test_page_has_no_console_error(seen: dict[str, Seen], page: str) -> None:
    """Neither an error in the console nor an uncaught one."""
    assert seen[page].errors == []
