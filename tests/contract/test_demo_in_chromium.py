"""The demo's page and its chat in a real browser, with real policies behind the chat."""

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.settings.run_file import load_config
from assay_shared.types import Task
from assay_trainer.config import RunConfig
from assay_trainer.service.demo.api.serving import ServedPage, served_page
from tests.conftest import Serve
from tests.contract.test_pages import HOSTILE
from tests.support.browser.chromium import (
    WHY_MISSING,
    find_chromium,
    quiet_page,
    serious_issues,
)
from tests.support.browser.stored_runs import DEMO, keep, make_group, make_run
from tests.support.fakes import make_task
from tests.support.planted_mesh import PlantedMesh
from tests.support.policies import make_policy_folder
from tests.unit.trainer.evaluation.test_report import make_evaluation, make_step

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_chromium() is None, reason=WHY_MISSING),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run with two policies, a held-out task, a step, and a failed sample."""
    run = make_run(tmp_path_factory.mktemp("demo") / "demo")
    for seed, stage in enumerate(("sft", "grpo")):
        make_policy_folder(run.path / "models" / stage, seed)
    tasks = [_task(name) for name in ("t0", "t1")]
    run.tasks.write_text("".join(f"{task.model_dump_json()}\n" for task in tasks))
    run.evaluation("before").parent.mkdir(parents=True, exist_ok=True)
    run.evaluation("before").write_text(make_evaluation("before", 2).model_dump_json())
    numbers = {"num_groups": 4, "num_played": 6, "num_flat_before": 0, "num_in_flight": 2}
    step = make_step(1, num_asked=8, **numbers)
    run.record("step", **step.model_dump(mode="json"))
    keep(run, 1, make_group(1, 1, *["accepted"] * 7, "failed:judge", prompt=HOSTILE))
    run.write_status(RunStatus(state="finished", stage="report"))
    return run


def _task(name: str) -> Task:
    prompt = "<img src=x onerror=alert(1)> x plus 1"
    return make_task(name, prompt=prompt, rubric="math", gold="4", reference="4", tests=())


@pytest.fixture(scope="module")
def mesh(run: RunFolder, serve_for_all: Serve) -> Iterator[PlantedMesh]:
    settings = {"inference_device": "cpu", "runs": run.path.parent}
    urls = {
        "inference": serve_for_all(create_inference(InferenceSettings.model_validate(settings))),
        "reward": serve_for_all(create_reward(RewardSettings())),
    }
    mesh = PlantedMesh(run.path.parent, urls)
    yield mesh
    mesh.close()


@pytest.fixture(scope="module")
def served(mesh: PlantedMesh) -> Iterator[ServedPage]:
    with served_page(mesh, load_config(RunConfig, DEMO)) as page:
        yield page


@pytest.fixture
def page(browser: "Browser", served: ServedPage) -> "Iterator[Page]":
    """The page of an opened link."""
    with quiet_page(browser, width=900, timeout_ms=60_000) as page:
        page.goto(served.link())
        yield page


def issues(page: "Page") -> list[str]:
    """Return axe's serious issues, in the light and in the dark."""
    found = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        found += serious_issues(page)
    return found


def test_a_button_kills_and_the_page_shows_that_nothing_is_lost(
    page: "Page", mesh: PlantedMesh
) -> None:
    page.locator("#account").wait_for()
    assert page.locator("[data-fact=missing]").inner_text() == "0"
    assert page.get_by_text("\N{MINUS SIGN}2.47").first.is_visible()
    assert page.locator("img").count() == 0
    child = mesh.children["worker-1"]
    button = page.get_by_role("button", name="Kill worker-1")
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_text(f"worker-1, process {child.pid}, was killed.").wait_for()
    assert child.wait(10) == -signal.SIGKILL
    mesh.restart()
    row = page.locator("#kills tr", has_text=str(child.pid))
    row.get_by_text("back after").wait_for()
    focused = page.evaluate("document.activeElement.dataset.kill")
    assert focused == "worker-1", "the fresh numbers take no focus"
    assert issues(page) == []


def test_the_policies_before_and_after_answer_side_by_side(page: "Page") -> None:
    page.get_by_role("link", name="before and after").click()
    page.wait_for_url("**/demo/chat")
    assert serious_issues(page) == []
    page.get_by_role("button", name="Ask both").click()
    page.get_by_role("heading", name="t0").wait_for()
    for name in ("before", "after"):
        column = page.locator(f"[data-policy={name}]")
        assert column.locator(".verdict").count() == 4, column.inner_text()
        assert "reward 0.00" in column.locator(".verdict").first.inner_text()
    weights = page.locator(".policy h3 span").all_inner_texts()
    assert weights[0].startswith("sft, weights ")
    assert weights[1].startswith("grpo, weights ")
    assert weights[0][-12:] != weights[1][-12:]
    assert page.locator("img").count() == 0
    assert issues(page) == []
    page.locator("select").select_option("")
    page.locator("textarea").fill("<img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Ask both").click()
    page.get_by_role("heading", name="Your prompt").wait_for()
    assert page.get_by_text("no reward: no tests").count() == 8
    page.locator("textarea").fill(" ")
    page.get_by_role("button", name="Ask both").click()
    page.get_by_text("write a prompt, or choose a task").wait_for()
