"""Open pages in a headless Chromium and note what they show.

`python -m tests.browser.visiting PLAN` runs a plan (JSON: `visits`, `screenshots`) and prints the
results as JSON. It is a process of its own because the pages behind a real Ray's proxy are
only reachable inside that Ray's namespace; outside it is used the same way.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from playwright.sync_api import TimeoutError as NotSeen

SEEN_TIMEOUT_MS = 30_000
# The dashboard asks for things that a stored session does not have, and says so in the console.
HARMLESS: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Visit:
    """A page to open, and the texts that must become visible."""

    name: str
    url: str
    texts: Sequence[str]
    cookie_url: str = ""  # opened before, for its cookies
    click: str = ""  # a text to click when all is visible (a closed section)
    then: Sequence[str] = ()  # what the click must show


@dataclass(slots=True)
class Seen:
    """What a visit showed."""

    name: str
    missing: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    text: str = ""


def chromium() -> str:
    """The distribution's browser."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        raise FileNotFoundError("chromium not found: install it (Debian: apt install chromium)")
    return found


def run(visits: Sequence[Visit], screenshots: Path) -> list[Seen]:
    """Visit all, each in a fresh context (no cookie of one session reaches another)."""
    screenshots.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            return [_visit(browser, visit, screenshots) for visit in visits]
        finally:
            browser.close()


def _visit(browser: Browser, visit: Visit, screenshots: Path) -> Seen:
    seen = Seen(visit.name)
    context = browser.new_context(viewport={"width": 1600, "height": 1200})
    page = context.new_page()
    if visit.cookie_url:
        page.goto(visit.cookie_url)
    page.on("console", lambda message: _note(seen, message))
    page.on("pageerror", lambda error: seen.errors.append(f"uncaught: {error}"))
    page.goto(visit.url)
    seen.missing += [text for text in visit.texts if not _appears(page, text)]
    if visit.click:
        page.get_by_text(visit.click).first.click()
        seen.missing += [text for text in visit.then if not _appears(page, text)]
    page.screenshot(path=screenshots / f"{visit.name}.png", full_page=True)
    seen.text = page.inner_text("body")[:4000]
    context.close()
    return seen


def _note(seen: Seen, message: ConsoleMessage) -> None:
    if message.type == "error" and not any(part in message.text for part in HARMLESS):
        where = message.location.get("url", "")
        seen.errors.append(f"{message.text} ({where})")


def _appears(page: Page, text: str) -> bool:
    try:
        page.get_by_text(text).first.wait_for(state="visible", timeout=SEEN_TIMEOUT_MS)
    except NotSeen:
        return False
    return True


def main(plan: dict[str, Any]) -> None:
    """Run a plan and print what was seen."""
    visits = [Visit(**each) for each in plan["visits"]]
    seen = run(visits, Path(plan["screenshots"]))
    print(json.dumps([asdict(each) for each in seen], ensure_ascii=False))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
