"""Inspect's own package reads the log, and its viewer serves it."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import Scored, ScoredGroup
from assay_trainer.browser.exports.exporting import export_samples
from assay_trainer.browser.opening import OpenedRun, open_for_reading
from assay_trainer.browser.reading.filters import SampleFilter
from tests.support.browser.stored_runs import fill, keep, make_group, make_run

EVIDENCE = {"tests": {"passed": 1, "of": 2, "cases": [{"case": 2, "status": "wrong_answer"}]}}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = make_run(tmp_path / "a")
    fill(folder, 400)
    keep(folder, 3, with_evidence(make_group(3, 900, "wrong_answer", "failed:judge")))
    keep(folder, 3, make_group(3, 900, "accepted"))
    return folder


def with_evidence(scored: ScoredGroup) -> ScoredGroup:
    rewards = tuple(
        one.model_copy(update={"evidence": EVIDENCE}) if isinstance(one, Scored) else one
        for one in scored.rewards
    )
    return scored.model_copy(update={"rewards": rewards})


def written(run: RunFolder, tmp_path: Path, **given: str) -> Path:
    opened: OpenedRun = open_for_reading(run, tmp_path / "index")
    opened.index.complete()
    path = tmp_path / "logs" / "a.eval"
    path.parent.mkdir()
    export_samples(opened, SampleFilter(**given), path, lambda problem: pytest.fail(problem))
    return path


def content(path: Path, name: str) -> Any:
    with zipfile.ZipFile(path) as log:
        return json.loads(log.read(name))


def test_a_failed_sample_has_an_error_and_no_score(run: RunFolder, tmp_path: Path) -> None:
    path = written(run, tmp_path, outcome="failed", step="3")
    (summary,) = content(path, "summaries.json")
    assert (summary["scores"], summary["epoch"]) == (None, 2)
    sample = content(path, f"samples/{summary['id']}_epoch_2.json")
    assert sample["scores"] is None
    assert (
        sample["error"]["message"] == "judge in judge, 3 attempts: no judge answered <b>in time</b>"
    )
    results = content(path, "header.json")["results"]
    assert (results["total_samples"], results["completed_samples"]) == (1, 0)
    assert results["scores"] == []


def test_groups_of_the_same_task_and_step_have_names_of_their_own(
    run: RunFolder, tmp_path: Path
) -> None:
    path = written(run, tmp_path, task="family-0/900")
    named = [(one["id"], one["epoch"]) for one in content(path, "summaries.json")]
    name = "step-00003-family-0_900"
    assert named == [(name, 1), (name, 2), (f"{name}#2", 1)]


def test_inspect_reads_all_of_it(run: RunFolder, tmp_path: Path) -> None:
    package = pytest.importorskip("inspect_ai.log", reason="needs inspect-ai")
    path = str(written(run, tmp_path))
    log = package.read_eval_log(path)
    assert (log.status, len(log.samples)) == ("success", 403)
    shares = {one.name: one.metrics["mean"].value for one in log.results.scores}
    rewards = [one.scores["reward"].value for one in log.samples if one.scores]
    assert len(rewards) == 401
    assert shares["reward"] == pytest.approx(sum(rewards) / 401)
    (one,) = (
        s
        for s in log.samples
        if s.metadata["task"] == "family-0/900"
        and s.scores
        and s.metadata["outcome"] == "wrong_answer"
    )
    assert one.messages[0].content == one.input[0].content == "Write task 900."
    assert one.output.completion == one.messages[1].content
    assert one.scores["tests"].explanation == "1 of 4 cases passed"
    assert "test 2: wrong_answer" in one.scores["reward"].explanation
    assert one.metadata["policy_versions"] == [3]
    assert len(package.read_eval_log_sample_summaries(path)) == 403
    again = package.read_eval_log_sample(path, id=one.id, epoch=one.epoch)
    assert again.scores["reward"].metadata["evidence"] == EVIDENCE
