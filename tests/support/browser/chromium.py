"""Chromium under Playwright, with axe's check of accessibility."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: No sandbox of Chromium's own as root; no look-ups of hosts that tests do not name.
_FLAGS = (
    *(() if os.getuid() else ("--no-sandbox",)),
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
WHY_MISSING = "needs Chromium (Debian: chromium, or ASSAY_CHROMIUM) and Playwright for Python"


def find_chromium() -> str | None:
    """Return the path of Chromium; None if it or Playwright is missing."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return None
    named = os.environ.get("ASSAY_CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def started_chromium() -> "Iterator[Browser]":
    """Yield a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def quiet_page(
    browser: "Browser", width: int = 1200, timeout_ms: int = 20_000, *, is_phone: bool = False
) -> "Iterator[Page]":
    """Yield a page; check that its console stays empty and that it opens no dialog."""
    context = browser.new_context(viewport={"width": width, "height": 900}, is_mobile=is_phone)
    page = context.new_page()
    page.set_default_timeout(timeout_ms)
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("dialog", lambda dialog: told.append(f"a dialog: {dialog.message}"))
    try:
        yield page
    finally:
        context.close()
    assert [one for one in told if "422" not in one] == []


def serious_issues(page: "Page") -> list[str]:
    """Return what axe finds of serious or critical impact, with the first element of each."""
    from axe_playwright_python.sync_playwright import Axe

    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
