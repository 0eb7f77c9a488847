"""Learned workflows are read from evaluations, runs and files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay_reward.workflows.command import app
from assay_reward.workflows.comparison.candidates import one_turn
from assay_reward.workflows.comparison.learned import learned_candidate
from assay_reward.workflows.comparison.plan import WorkflowComparison
from assay_shared.errors import DatasetError
from assay_shared.types import Task
from tests.support.fakes import make_rollout
from tests.support.workflows import ONE_CALL, make_workflow_task

TASK = Task(id="a", prompt="What?", rubric="math", reference="1")


def lines(path: Path, *rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def rollout_line(text: str, step: int = 1, superseded: bool = False) -> dict[str, object]:
    rollout = json.loads(make_rollout(text).model_dump_json())
    task = json.loads(make_workflow_task("workflow/a").model_dump_json())
    group = {"key": "k", "task": task, "rollouts": [rollout]}
    return {"step": step, "superseded": superseded, "group": group, "worker": "w"}


def test_an_evaluation_gives_each_sample_of_a_task(tmp_path: Path) -> None:
    rows = [{"task_id": "workflow/a", "index": at, "text": text} for at, text in enumerate("xy")]
    rows.append(
        {"task_id": "workflow/b", "index": 0, "text": "z", "turns": [["y", "o"], ["keep", ""]]}
    )
    lines(tmp_path / "held_out" / "samples.jsonl", *rows)
    found = learned_candidate("l", tmp_path)
    assert found.sources(TASK, 5) == ("x", "y")
    assert found.sources(TASK, 1) == ("x",)
    assert found.sources(TASK.model_copy(update={"id": "b"}), 1) == ("y",), "it kept that one"
    assert found.sources(TASK.model_copy(update={"id": "c"}), 1) == ()


def test_a_run_gives_the_last_group_that_counts(tmp_path: Path) -> None:
    rows = [rollout_line("old"), rollout_line("new", 2), rollout_line("gone", 3, superseded=True)]
    lines(tmp_path / "rollouts.jsonl", *rows)
    with (tmp_path / "rollouts.jsonl").open("a") as file:
        file.write('{"step":4,"superseded":false,"gro')  # the run is still writing
    assert learned_candidate("l", tmp_path).sources(TASK, 1) == ("new",)


def test_a_file_is_for_every_task(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text(ONE_CALL)
    assert learned_candidate("l", tmp_path / "w.txt").sources(TASK, 2) == (ONE_CALL, ONE_CALL)


def test_what_holds_no_workflow_is_refused_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="has no workflows"):
        learned_candidate("l", tmp_path)
    lines(tmp_path / "samples.jsonl", {"task_id": "a", "text": "x"}, {"text": "y"})
    with pytest.raises(DatasetError, match=r"samples\.jsonl:2"):
        learned_candidate("l", tmp_path)


def test_a_plan_refuses_workflows_of_other_tasks_and_too_many_samples(tmp_path: Path) -> None:
    lines(tmp_path / "samples.jsonl", {"task_id": "other", "text": "x"})
    task = one_turn(TASK, "workflow")
    learned = learned_candidate("l", tmp_path)
    with pytest.raises(
        DatasetError, match="no workflow for any of the tasks; it has some for other"
    ):
        WorkflowComparison((task,), (learned,)).check()
    file = tmp_path / "w.txt"
    file.write_text(ONE_CALL)
    many = tuple(learned_candidate(f"l{number}", file) for number in range(9))
    with pytest.raises(DatasetError, match="at most 256"):
        WorkflowComparison((task,), many, samples=32).check()
    with pytest.raises(DatasetError, match="twice"):
        WorkflowComparison((task, task), (many[0],)).check()


def test_a_file_that_is_not_a_workflow_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("return 3")
    with pytest.raises(DatasetError, match="is not a valid workflow"):
        learned_candidate("l", tmp_path / "bad.txt")


@pytest.mark.parametrize("command", ["compare", "search"])
def test_a_rubric_of_other_answers_is_refused(command: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(TASK.model_dump_json() + "\n")
    words = [command, str(tmp_path / "tasks.jsonl"), "--output", str(tmp_path / "out")]
    found = CliRunner().invoke(app, [*words, "--rubric", "math"])
    assert isinstance(found.exception, DatasetError)
    assert "'math' is not a rubric of workflows" in str(found.exception)
    assert not (tmp_path / "out").exists()
