"""Takes the pictures of docs/demo.md from a demo with `--stay` that has just begun.

`python -m tests.support.browser.demo_screenshots LINK` opens the demo's link, kills processes in
the middle of GRPO, and asks both policies once the run has finished.
"""

import sys
from typing import TYPE_CHECKING

from tests.support.browser.chromium import started_chromium
from tests.support.browser.screenshots import IMAGES

if TYPE_CHECKING:
    from playwright.sync_api import Page

_RUN_MS = 1_800_000
_VICTIMS = ("worker-1", "reward")
#: Held-out tasks that are tried for one that both policies answer differently.
_MOST_TASKS = 20


def main(link: str) -> None:
    """Write the pictures."""
    with started_chromium() as browser:
        page = browser.new_page(viewport={"width": 960, "height": 700})
        page.set_default_timeout(_RUN_MS)
        page.goto(link)
        page.locator("#account").wait_for()
        for name in _VICTIMS:
            page.get_by_role("button", name=f"Kill {name}").click()
            page.locator("#kills tr", has_text=name).get_by_text("back after").wait_for()
        page.wait_for_timeout(2000)
        page.screenshot(path=IMAGES / "demo-live.png")
        page.locator("#state", has_text="finished").wait_for()
        page.get_by_role("link", name="before and after").click()
        _ask(page)
        page.screenshot(path=IMAGES / "demo-chat.png", full_page=True)


def _ask(page: "Page") -> None:
    """Ask for held-out tasks until the answers after are better than those before."""
    for number in range(1, _MOST_TASKS):
        page.locator("select").select_option(index=number)
        page.get_by_role("button", name="Ask both").click()
        page.get_by_role("heading", name=page.locator("select").input_value()).wait_for()
        rewards = page.locator(".policy > p:first-of-type b").all_inner_texts()
        if len(rewards) == 2 and float(rewards[1]) >= float(rewards[0]) + 0.3:
            return


if __name__ == "__main__":
    main(sys.argv[1])
