"""The run browser in a real browser: live, by keyboard, in the dark, on a phone, from disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.runs.run_lock import held
from assay_shared.types import Rollout, ScoredGroup
from assay_trainer.browser.opening import open_for_reading
from assay_trainer.browser.pages.file_page import file_page
from assay_trainer.service.app import create_app
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve
from tests.contract.test_pages import HOSTILE
from tests.support.browser.chromium import (
    WHY_MISSING,
    find_chromium,
    quiet_page,
    serious_issues,
)
from tests.support.browser.stored_runs import fill, keep, make_group, make_run
from tests.unit.trainer.evaluation.test_report import make_step

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_chromium() is None, reason=WHY_MISSING),
]
PAGES = ("/", "/runs/a", "/runs/a/samples", "/runs/a/samples?outcome=failed&step=x")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with hostile texts, failures, discarded groups, an episode and coloured tokens."""
    run = make_run(tmp_path_factory.mktemp("runs") / "a")
    words = {f"{HOSTILE}{number}" if number < 3 else f"w{number} ": number for number in range(500)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w9 "))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    (run.path / "models" / "m").mkdir(parents=True)
    tokenizer.save(str(run.path / "models" / "m" / "tokenizer.json"))
    fill(run, 96, groups_per_step=4)
    group = make_group(90, 900, "accepted", "failed:judge", prompt=HOSTILE, gold=HOSTILE)
    first = group.group.rollouts[0]
    text = HOSTILE + "x" * 100_000
    changed = first.model_copy(update={"text": text, "token_ids": (0, 1, 2, *first.token_ids[3:])})
    keep(run, 90, _with(group, changed))
    turn = {"start": 0, "end": 20, "text": HOSTILE, "observation": "the lamp is on"}
    last = {"start": 30, "end": 40, "text": "done"}
    keep(run, 91, _with(make_group(91, 901, "accepted"), first, turns=[turn, last]))
    for step in (1, 2, 3):
        run.record("step", **make_step(step, reward=0.25 * step).model_dump(mode="json"))
    run.write_status(RunStatus(state="finished", stage="report", message=HOSTILE))
    return run


def _with(group: ScoredGroup, first: Rollout, **changes: object) -> ScoredGroup:
    """Return a group with another first sample."""
    values = first.model_dump() | changes
    rollouts = (Rollout.model_validate(values), *group.group.rollouts[1:])
    return group.model_copy(update={"group": group.group.model_copy(update={"rollouts": rollouts})})


@pytest.fixture(scope="module")
def url(serve_for_all: Serve, run: RunFolder) -> str:
    return serve_for_all(create_app(TrainerSettings(runs=run.path.parent)))


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    with quiet_page(browser) as page:
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_issue_on_any_page(page: "Page", url: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in PAGES if scheme == "light" else PAGES[1:3]:
        page.goto(url + path)
        assert serious_issues(page) == [], path
    page.goto(f"{url}/runs/a/samples?step=90-91")
    for number in (0, 1, 2):
        page.locator("a.cell").nth(number).click()
        page.wait_for_url("**/sample?*")
        assert serious_issues(page) == [], number
        page.go_back()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 27)"
    assert dark == (scheme == "dark")


def test_the_keyboard_leads_to_a_sample_and_on_to_the_next(page: "Page", url: str) -> None:
    page.goto(f"{url}/runs/a/samples?outcome=failed")
    page.keyboard.press("l")
    assert "sample 0" in str(page.evaluate("document.activeElement.ariaLabel"))
    for key in "jl":
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_url("**/sample?*place=1*outcome=failed")
    assert page.get_by_text("judge failed in judge after 3 attempts").count() == 1
    page.keyboard.press("p")
    page.wait_for_url("**/sample?*place=3*outcome=failed")
    page.keyboard.press("u")
    page.wait_for_url("**/samples?outcome=failed")
    page.keyboard.press("/")
    page.keyboard.type("jjj")
    assert page.locator("input[name=task]").input_value() == "jjj", "keys in a field are letters"
    page.keyboard.press("Enter")
    page.wait_for_url("**/samples?outcome=failed&*task=jjj*")
    assert page.get_by_text("0 samples match").count() == 1


def test_hostile_texts_are_shown_as_texts(page: "Page", url: str) -> None:
    page.goto(f"{url}/runs/a/samples?step=90")
    page.locator("a.cell").first.click()
    page.wait_for_url("**/sample?*")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert page.get_by_text("<script>alert(1)</script>").count() >= 4
    assert page.locator(".tokens span").nth(1).get_attribute("title") is not None
    wide, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inner, "a line of 100,000 letters is wrapped"
    page.goto(f"{url}/runs/a/samples?step=91")
    page.locator("a.cell").first.click()
    page.wait_for_url("**/sample?*")
    assert page.get_by_text("the lamp is on").count() == 1


def test_a_running_run_is_shown_as_it_goes(page: "Page", url: str, run: RunFolder) -> None:
    live = make_run(run.path.parent / "live")
    live.write_status(RunStatus(state="running", stage="grpo", num_steps=9))
    with held(live.path):
        page.goto(f"{url}/runs/live")
        assert page.locator("#state").inner_text() == "running"
        page.locator("summary", has_text="Configuration").click()
        live.record("step", **make_step(1, num_played=7, num_groups=5).model_dump(mode="json"))
        keep(live, 1, make_group(1, 1, "accepted", "wrong_answer"))
        page.locator("#funnel").wait_for()
        assert page.locator("#funnel tbody tr").first.inner_text().split()[:2] == ["asked", "7"]
        assert page.get_by_text("grpo.group_size").is_visible(), "what a reader opened stays open"
        live.write_status(RunStatus(state="finished", stage="report"))
        page.locator("#state", has_text="finished").wait_for()
    assert page.locator("dd a", has_text="2").count() == 1
    shutil.rmtree(live.path)


def test_pages_fit_a_phone(browser: "Browser", url: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, is_mobile=True)
    page = context.new_page()
    for path in (*PAGES, "/runs/a/samples?step=90"):
        page.goto(url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    page.locator("a.cell").first.click()
    page.wait_for_url("**/sample?*")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()


def test_the_file_opens_from_disk_without_a_network(page: "Page", tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    fill(run, 16)
    keep(run, 2, make_group(2, 900, "accepted", "failed:judge", prompt=HOSTILE, gold=HOSTILE))
    run.record("step", **make_step(1).model_dump(mode="json"))
    opened = open_for_reading(run, tmp_path / "index")
    opened.index.complete()
    opened.events.update()
    file = tmp_path / "run.html"
    file.write_text(file_page(opened, 25 * 2**20).html)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.goto(file.as_uri())
    assert [one for one in asked if not one.startswith("data:")] == [file.as_uri()]
    assert page.locator("img").count() == 0
    assert page.locator("a.cell").count() == 18
    assert serious_issues(page) == []
    page.locator("a.cell").nth(17).click()
    assert "judge failed in judge" in page.locator("article:target").inner_text()
    last = page.url
    page.keyboard.press("p")
    assert page.locator("article:target dd").first.inner_text() == "accepted"
    page.keyboard.press("n")
    assert page.url == last
