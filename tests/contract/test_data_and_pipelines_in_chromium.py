"""The pages of data and of pipelines in a real browser: axe, the dark, a phone, the keyboard."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assay_shared.types import Role
from assay_trainer.pipelines.api.app import create_served_app
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve
from tests.contract.test_data_page import keep, tasks
from tests.contract.test_pages import HOSTILE
from tests.support.browser.chromium import (
    WHY_MISSING,
    find_chromium,
    serious_issues,
    started_chromium,
)
from tests.support.browser.stored_pipelines import failed_pipeline, gated_pipeline
from tests.support.browser.stored_runs import make_run
from tests.unit.trainer.evaluation.test_report import make_step

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_chromium() is None, reason=WHY_MISSING),
]
LONG = HOSTILE.replace("\0", "") + "x" * 300
PAGES = ("/runs/a/data", "/pipelines", "/pipelines/small", "/pipelines/gated")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with started_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def url(serve_for_all: Serve, tmp_path_factory: pytest.TempPathFactory) -> str:
    runs: Path = tmp_path_factory.mktemp("home") / "runs"
    run = make_run(runs / "a")
    keep(run, tasks(6, Role.TRAIN, "code") + tasks(2, Role.TRAIN, LONG), tasks(2, Role.TEST, LONG))
    shares = {"code": 3, LONG: 1}
    told = make_step(1, played_by_domain=shares, trained_by_domain=shares)
    run.record("step", **told.model_dump(mode="json"))
    run.record("task_set_aside", set="training", task=LONG, reason=LONG)
    failed_pipeline(runs, "small", ["data", "show", LONG])
    gated_pipeline(runs, "gated", LONG)
    return serve_for_all(create_served_app(TrainerSettings(runs=runs)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_pages_fit_and_axe_finds_no_serious_issue(
    browser: "Browser", url: str, scheme: str, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("dialog", lambda dialog: told.append(f"a dialog: {dialog.message}"))
    for path in PAGES:
        page.goto(url + path)
        assert serious_issues(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.locator("img").count() == 0, path
    context.close()
    assert told == []


def test_the_keyboard_leads_from_a_pipeline_to_the_run_of_a_stage_and_up(
    browser: "Browser", url: str
) -> None:
    page = browser.new_page()
    page.goto(f"{url}/pipelines/small")
    page.get_by_role("link", name="the run of learn").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/small~learn")
    page.get_by_role("link", name="data", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/small~learn/data")
    page.keyboard.press("u")
    page.wait_for_url("**/runs/small~learn")
    page.goto(f"{url}/pipelines/small")
    page.keyboard.press("u")
    page.wait_for_url("**/pipelines")
    page.close()
