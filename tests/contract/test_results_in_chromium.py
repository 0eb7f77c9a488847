"""Pages of results in a real browser: light, dark, on a phone, by keyboard, from disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.run_file import load_config
from assay_shared.types import PolicyVersion, Status
from assay_trainer.browser.opening import open_for_reading
from assay_trainer.browser.pages.file_page import file_page
from assay_trainer.config import RunConfig
from assay_trainer.evaluation.evaluator import EvaluationSample, TaskEvaluation, TaskResult
from assay_trainer.service.app import create_app
from assay_trainer.service.record import create_run
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve
from tests.contract.test_pages import HOSTILE
from tests.support.browser.chromium import (
    WHY_MISSING,
    find_chromium,
    quiet_page,
    serious_issues,
)
from tests.support.browser.stored_runs import DEMO, fill
from tests.unit.trainer.evaluation.test_report import make_step

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_chromium() is None, reason=WHY_MISSING),
]
PAGES = (
    "/?sort=cost",
    "/runs/a/evaluations",
    "/runs/a/evaluations/task?set=held_out&task=t0",
    "/compare?run=a&run=b&run=a-long-name-without-a-space-that-must-not-widen-the-page",
)
WIDEST_PHONE = 360


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs with curves and evaluations: texts of models are hostile or very long."""
    home = tmp_path_factory.mktemp("runs")
    for place, name in enumerate(("a", "b", PAGES[-1].rpartition("=")[2])):
        config = load_config(RunConfig, DEMO, (f"grpo.group_size={4 + place}",))
        run = create_run(home / name, config, started_by=f"worker-{place}")
        for number in (1, 2, 3):
            step = make_step(number, reward=0.1 * number * (place + 1), num_tokens=10**6)
            run.record("step", **step.model_dump(mode="json"))
        run.evaluation("before").parent.mkdir()
        run.evaluation("before").write_text(_evaluation("before", set(range(8))))
        run.evaluation("after").write_text(_evaluation("after", set(range(4, 12 + 2 * place))))
    fill(RunFolder(home / "a"), 16)
    return home


def _evaluation(name: str, right: set[int]) -> str:
    text = HOSTILE + "y" * 2000
    results = [
        TaskResult(
            task_id=f"t{number}",
            prompt=text,
            tags={"domain": "code" if number % 2 else "lookup"},
            samples=[
                EvaluationSample(
                    text=f"{name} {number} {text}",
                    outcome=Status.ACCEPTED if number in right else Status.WRONG_ANSWER,
                )
            ],
        )
        for number in range(24)
    ]
    policy = PolicyVersion(version=1, digest="d" * 64)
    found = TaskEvaluation(name=name, policy=policy, confidence=0.95, results=results)
    return found.model_dump_json()


@pytest.fixture(scope="module")
def url(serve_for_all: Serve, runs: Path) -> str:
    return serve_for_all(create_app(TrainerSettings(runs=runs)))


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    with quiet_page(browser) as page:
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_issue(page: "Page", url: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in PAGES:
        page.goto(url + path)
        assert serious_issues(page) == [], path
        assert page.locator("img").count() == 0, path
        assert page.locator("script").count() == 1, path


def test_pages_fit_a_phone(browser: "Browser", url: str) -> None:
    with quiet_page(browser, WIDEST_PHONE, is_phone=True) as page:
        for path in PAGES:
            page.goto(url + path)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= WIDEST_PHONE, path
            assert serious_issues(page) == [], path


def test_the_keyboard_leads_from_the_runs_to_a_comparison(page: "Page", url: str) -> None:
    page.goto(f"{url}/?sort=name")
    for name in ("a", "b"):
        page.get_by_label(f"compare {name}", exact=True).focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare the chosen runs").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?*run=a*run=b*")
    assert page.get_by_role("heading", name="2 runs side by side").count() == 1
    page.get_by_role("link", name="tokens").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**over=tokens")
    assert page.locator("a[aria-current]").inner_text() == "tokens"
    page.keyboard.press("u")
    page.wait_for_url(f"{url}/")


def test_the_keyboard_leads_to_a_turned_task_and_back(page: "Page", url: str) -> None:
    page.goto(f"{url}/runs/a/evaluations")
    page.get_by_role("link", name="t0", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/evaluations/task?*task=t0")
    assert "before 0" in page.get_by_role("region", name="Before").inner_text()
    assert "wrong_answer" in page.get_by_role("region", name="After").inner_text()
    page.keyboard.press("u")
    page.wait_for_url("**/runs/a/evaluations")


def test_turned_tasks_of_the_file_open_from_disk(page: "Page", runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "a", tmp_path / "a")
    opened = open_for_reading(RunFolder(tmp_path / "a"), tmp_path / "index")
    opened.index.complete()
    opened.events.update()
    file = tmp_path / "run.html"
    file.write_text(file_page(opened, 2**20).html)
    page.context.set_offline(True)
    page.goto(file.as_uri())
    assert serious_issues(page) == []
    page.get_by_role("link", name="t0", exact=True).click()
    assert "before 0" in page.locator("article:target").inner_text()
    page.keyboard.press("n")
    assert "before 0" not in page.locator("article:target").inner_text()
