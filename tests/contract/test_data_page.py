"""The page of a run's data over HTTP, of files that the trainer's own code wrote."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import load_config
from assay_shared.types import Role, Task
from assay_trainer.browser.facts import task_counts
from assay_trainer.checks.leaks.check import check_leaks
from assay_trainer.config import LeaksConfig, RunConfig
from assay_trainer.curation.importing import import_set
from assay_trainer.curation.mixing import MixOrder, mix
from assay_trainer.curation.order import ImportOrder, NearOrder
from assay_trainer.data.importers.own_tasks import OWN_TASKS
from assay_trainer.learner.ranks import Ranks
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.run_sets import open_sets
from assay_trainer.service.app import create_app
from assay_trainer.service.record import create_run
from assay_trainer.settings import TrainerSettings
from assay_trainer.stop import Stop
from tests.conftest import Serve
from tests.contract.test_pages import HOSTILE, page
from tests.support.browser.stored_runs import DEMO, make_run
from tests.support.fakes import make_task
from tests.unit.trainer.evaluation.test_report import make_step


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
async def session(serve: Serve, runs: Path) -> AsyncIterator[aiohttp.ClientSession]:
    url = serve(create_app(TrainerSettings(runs=runs)))
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(30)) as opened:
        yield opened


def tasks(number: int, role: Role, domain: str, first: int = 0) -> list[Task]:
    return [
        make_task(
            f"{domain}/{one}",
            prompt=f"Question {one} of {domain}: what is {one} times {one + 7} less {one * 3}?",
            gold=f"the answer of {domain} is {one * 5}",
            role=role,
            dataset="own",
            tags={"domain": domain},
        )
        for one in range(first, first + number)
    ]


def keep(run: RunFolder, train: list[Task], held_out: list[Task], **told: Any) -> None:
    """Write the tasks as a run does."""
    run.tasks.write_text("\n".join(one.model_dump_json() for one in train + held_out) + "\n")
    if told.get("is_told", True):
        run.record("data", num_train=len(train), num_held_out=len(held_out), num_preferences=0)


async def test_the_tasks_the_shares_and_the_leaks_of_a_run_are_shown(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    run = make_run(runs / "a")
    train = tasks(30, Role.TRAIN, "code") + tasks(10, Role.TRAIN, "lookup")
    held_out = [*tasks(5, Role.TEST, "code", 100), train[0].model_copy(update={"role": Role.TEST})]
    keep(run, [*train, train[3]], held_out)
    found = check_leaks(train, held_out, LeaksConfig())
    run.record("leaks_checked", **found.counts())
    found.write(run.path / "leaks.json")
    for step in (1, 2):
        played, trained = {"code": 3, "lookup": 1}, {"code": 2}
        told = make_step(step, played_by_domain=played, trained_by_domain=trained)
        run.record("step", **told.model_dump(mode="json"))
    run.record("task_set_aside", set="training", task=HOSTILE, reason=HOSTILE)
    text = (await page(session, "/runs/a/data")).text
    assert "47 tasks." in text
    assert "trainingcodetrainown3175.6%" in text
    assert "held-outcodetestown6100.0%" in text
    assert "code70.0%75.6%\n675.0%4100.0%" in text.replace(" ", ""), "asked, tasks, played, trained"
    assert "1 of 6 held-out tasks are among the 40 training tasks" in text
    assert "training tasks like an earlier one1" in text
    assert "held-out tasks like a training task1" in text
    assert "assay leaks FILE --jaccard 0.7" in text
    assert "SFT: the run does not record the domains" in text
    assert "<script>alert(1)</script>" in text
    links = set((await page(session, "/runs/a/data")).links())
    assert "/runs/a/samples?tag=domain%3Acode" in links
    assert "/runs/a/data" in set((await page(session, "/runs/a")).links())


async def test_a_mixture_tells_what_was_asked_and_achieved(
    session: aiohttp.ClientSession, runs: Path, tmp_path: Path
) -> None:
    parts = {"sums": "math", "words": "lookup"}
    for name, domain in parts.items():
        rows = tasks(40, Role.TRAIN, domain) + tasks(4, Role.VALIDATION, domain, 200)
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{t.model_dump_json()}\n" for t in rows))
        file, near = str(tmp_path / f"{name}.jsonl"), NearOrder(is_wanted=False)
        import_set(ImportOrder(OWN_TASKS, file, tmp_path / name, near=near))
    folders = tuple(tmp_path / name for name in parts)
    weights = {"sums": 0.75, "words": 0.25}
    mix(MixOrder(folders, tmp_path / "mixed", weights, near=NearOrder(is_wanted=False)))
    source = f"{{kind: imported, path: {tmp_path / 'mixed'}}}"
    changes = (f"data.train={source}", f"data.held_out={source}")
    config = load_config(RunConfig, DEMO, changes)
    run = create_run(runs / "a", config)
    text = (await page(session, "/runs/a/data")).text
    assert "the run has no copy of its manifest" in text
    assert "The run has not stored its tasks yet" in text
    settings = ServiceSettings(data=tmp_path)
    open_sets(RunContext(run, config, settings, Stop(), Ranks()))
    assert run.set_manifest("held-out").exists()
    text = (await page(session, "/runs/a/data")).text
    assert "75.0%" in text
    assert "sums (" in text
    assert "+0.5 points" in text, "40 of 53 rows"
    assert "The import searched for" in text
    assert "The import did not search for near duplicates" in text
    manifest = json.loads(run.set_manifest("training").read_text())
    del manifest["parts"]
    run.set_manifest("training").write_text(json.dumps(manifest))
    assert "the weights asked for are unknown" in (await page(session, "/runs/a/data")).text


async def test_what_a_run_does_not_record_is_unknown_with_the_command_that_measures_it(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    make_run(runs / "a")
    text = (await page(session, "/runs/a/data")).text
    for told in (
        "The run has not stored its tasks yet",
        "No search for leaks is recorded. Unknown: assay leaks FILE measures it.",
        "No step of GRPO with domains is recorded yet",
        "Near duplicates among the training tasks are not recorded.",
        "Unknown: the run has not recorded that it opened its data.",
    ):
        assert told in text, told
    await page(session, "/runs/none/data", 404)
    RunFolder(runs / "a").config.write_text('{"config": {"other": 1}}')
    assert "configuration cannot be read" in (await page(session, "/runs/a/data")).text


async def test_damaged_half_written_and_long_files_are_named_with_what_is_left_out(
    session: aiohttp.ClientSession, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(runs / "a")
    keep(run, tasks(5, Role.TRAIN, "code"), tasks(2, Role.TEST, HOSTILE), is_told=False)
    with run.tasks.open("a") as file:
        file.write(f'[1]\n{{"id": {HOSTILE}\n{{"id": "half')
    (run.path / "leaks.json").write_text('{"num_training": 1')
    (run.path / "sets").mkdir()
    text = (await page(session, "/runs/a/data")).text
    assert "7 tasks. " in text
    assert "roles tell the sets apart" in text
    assert "damaged line tasks.jsonl:8" in text
    assert "damaged line tasks.jsonl:9" in text
    assert "0.00 MiB are left" in text
    assert "leaks.json cannot be read" in text
    monkeypatch.setattr(task_counts, "MOST_TASKS", 3)
    monkeypatch.setattr(task_counts, "MOST_CLASSES", 1)
    run = make_run(runs / "b")
    keep(run, tasks(5, Role.TRAIN, "code"), tasks(9, Role.TEST, "lookup"))
    text = (await page(session, "/runs/b/data")).text
    assert "3 tasks." in text
    assert "MiB) are left out" in text or "MiB are left out" in text
    run = make_run(runs / "c")
    os.mkfifo(run.tasks)
    assert (
        "tasks.jsonl cannot be read: it is not a regular file"
        in (await page(session, "/runs/c/data")).text
    )
    run = make_run(runs / "d")
    run.tasks.write_text(
        "".join(
            json.dumps({"id": one, "role": "train", "tags": {"domain": f"d{one}"}}) + "\n"
            for one in range(2000)
        )
    )
    (run.path / "leaks.json").mkdir()
    assert "leaks.json cannot be read" in (await page(session, "/runs/d/data")).text
