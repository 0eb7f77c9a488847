"""`assay try` as a command: real services, a real kill, and its page in Chromium."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support.browser.chromium import (
    WHY_MISSING,
    find_chromium,
    serious_issues,
    started_chromium,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
Trial = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """The page, and what the command printed."""
    folder = tmp_path_factory.mktemp("try")
    ran = subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "try", "--json", "--output", "page.html"],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=240,
        env=os.environ | {"TMPDIR": str(folder)},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert [one.name for one in folder.iterdir()] == ["page.html"], "nothing else is left"
    assert not [one for one in psutil.process_iter() if works_in(one, folder)]
    return folder / "page.html", json.loads(ran.stdout)


def works_in(process: psutil.Process, folder: Path) -> bool:
    """Return True if a process has the folder as its temporary folder."""
    try:
        return process.environ().get("TMPDIR") == str(folder)
    except psutil.Error:
        return False


def test_each_answer_has_its_true_verdict_and_usual_practice_pays_cheats(trial: Trial) -> None:
    answers = [one for group in trial[1]["groups"] for one in group["answers"]]
    assert len(answers) == 200
    assert [one["note"] for one in answers if one["own_harm"]] == []
    harms = Counter(one["harm"] for one in answers)
    assert harms["a cheat was paid"] >= 30
    assert harms["a right answer got nothing"] >= 20
    assert harms["a failure was read as 0"] == 2
    assert [one["note"] for one in answers if one["assay"]["value"] is None] == [
        "the judge's server is down for this one"
    ]


def test_the_answer_under_the_kill_failed_first_and_has_its_reward_now(trial: Trial) -> None:
    group = trial[1]["groups"][-1]
    *_, killed = group["answers"]
    (earlier,) = killed["earlier"]
    assert earlier["value"] is None
    assert earlier["verdict"] in ("failed (network)", "failed (sandbox)")
    assert killed["assay"]["value"] == 1.0
    assert killed["usual"]["value"] == 0.0
    assert killed["usual_advantage"] == pytest.approx(-2.474, abs=1e-3)
    assert [one["advantage"] for one in group["answers"]] == [0.0] * 8


def test_a_failure_that_stays_is_left_out(trial: Trial) -> None:
    group = next(one for one in trial[1]["groups"] if one["name"] == "A hash table question")
    assert [one["advantage"] for one in group["answers"]] == [0.0] * 7 + [None]


def test_an_interrupted_trial_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assay_shared.cli", "try", "--output", "page.html"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(600):
            if list(tmp_path.glob("assay-try-*/*")):
                break
            time.sleep(0.1)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=200)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    assert told.splitlines()[-1] == "stopped: no service is left, and nothing was written"
    assert list(tmp_path.iterdir()) == []
    assert not [one for one in psutil.process_iter() if works_in(one, tmp_path)]


def test_the_command_imports_no_torch_and_no_trainer() -> None:
    code = (
        "import sys, assay_shared.tryout.page, assay_shared.tryout.trial\n"
        "print({name.partition('.')[0] for name in sys.modules} & {'torch', 'assay_trainer'})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_bad_paths_are_refused_before_anything_starts(tmp_path: Path) -> None:
    for arguments, field in (
        (("--output", "missing/page.html"), "--output"),
        (("--answers", "missing.yaml"), "missing.yaml"),
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "assay_shared.cli", "try", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=200,
            check=False,
        )
        assert ran.returncode == 2, ran.stderr
        assert field in ran.stderr


@pytest.mark.skipif(find_chromium() is None, reason=WHY_MISSING)
def test_the_page_opens_from_disk_without_a_network_and_passes_axe(trial: Trial) -> None:
    with started_chromium() as browser:
        for scheme, width in (("light", 1080), ("dark", 390)):
            context = browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme=scheme,  # type: ignore[arg-type]
            )
            read_page(context.new_page(), trial[0].as_uri(), is_dark=scheme == "dark", width=width)
            context.close()


def read_page(page: "Page", url: str, *, is_dark: bool, width: int) -> None:
    """Check that the page is whole, fits its screen, and asks for nothing else."""
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(15, 20, 27)") == is_dark
    assert page.get_by_text("−2.47").first.is_visible()
    page.locator("#only").check()
    assert page.locator("tr.v-row-harmed").first.is_visible()
    assert not page.locator(".v-table tbody tr:not(.v-row-harmed)").first.is_visible()
    assert serious_issues(page) == []
    assert (told, asked) == ([], [url])
