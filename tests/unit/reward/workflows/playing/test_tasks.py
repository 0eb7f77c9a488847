"""Tasks of workflows: the problem keeps all that scores its answer."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from assay_reward.workflows.command import app
from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.operators.table import OPERATORS
from assay_reward.workflows.playing.reading import read_here, workflow_sources
from assay_reward.workflows.playing.tasks import (
    policy_prompt,
    read_tasks,
    to_workflow_task,
    write_tasks,
)
from assay_shared.errors import DatasetError
from assay_shared.types import Message, Role, Task
from tests.support.fakes import make_task
from tests.support.workflows import make_workflow_task


def test_a_task_keeps_what_scores_the_answer_and_its_tags() -> None:
    task = make_task("7", rubric="math", gold="18", tags={"domain": "math"})
    made = to_workflow_task(task)
    assert (made.rubric, made.reference, made.gold) == ("workflow", "18", None)
    assert (made.tests, made.tags, made.role) == (task.tests, task.tags, Role.TRAIN)
    assert made.environment is not None
    assert made.environment.instance == {"problem": "question 7", "rubric": "math"}
    assert "18" not in made.prompt.replace("18 ", "")


def test_a_conversation_becomes_one_problem() -> None:
    task = make_task(history=(Message(role="user", content="before"),))
    made = to_workflow_task(task, max_turns=3)
    assert made.environment is not None
    assert made.environment.instance["problem"] == "User: before\n\nUser: question t"
    assert made.history == ()
    assert "You have 3 turns" in made.prompt


def test_the_prompt_names_every_operator_and_its_example_is_valid() -> None:
    prompt = policy_prompt("What is {{operators}} and {braces}?")
    assert "What is {{operators}} and {braces}?" in prompt
    for name in OPERATORS:
        assert f"\n{name}(" in prompt
    example = prompt.split("Example:\n")[1].split("\n\n")[0]
    assert read_here(example, repair=False).problems == ()


@pytest.mark.parametrize(
    ("task", "field"),
    [
        (make_task(prompt=" "), "prompt"),
        (make_task(rubric=""), "rubric"),
        (make_workflow_task(), "environment"),
    ],
)
def test_a_task_that_cannot_be_one_is_refused(task: Task, field: str) -> None:
    with pytest.raises(DatasetError) as raised:
        to_workflow_task(task)
    assert raised.value.field == field


def test_files_are_read_back(tmp_path: Path) -> None:
    made = [to_workflow_task(make_task(f"{at}")) for at in range(3)]
    write_tasks(made, tmp_path / "t.jsonl")
    assert list(read_tasks(tmp_path / "t.jsonl")) == made
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert {row["role"] for row in rows} == {"train"}
    (tmp_path / "t.jsonl").write_text('{"id": "a"}\n{"prompt": 3}\n')
    with pytest.raises(DatasetError, match=r"t.jsonl:2"):
        list(read_tasks(tmp_path / "t.jsonl"))


@pytest.mark.parametrize(
    ("reply", "source"),
    [
        ("return problem", "return problem"),
        ("First:\n```\nx\n```\nBetter:\n```text\nreturn problem\n```\n", "return problem\n"),
        ("<think>```\nno\n```</think>\nreturn problem", "return problem"),
        ("", ""),
    ],
)
def test_the_last_block_of_a_reply_is_the_workflow(reply: str, source: str) -> None:
    assert workflow_sources(reply)[0] == source


def test_a_problem_without_room_in_a_prompt_is_refused() -> None:
    to_workflow_task(make_task(prompt="x" * 16_384, rubric="math"))
    with pytest.raises(DatasetError, match="the problem has 16385 characters"):
        to_workflow_task(make_task("long", prompt="x" * 16_385, rubric="math"))


@pytest.mark.parametrize(
    ("rows", "given", "said"),
    [
        ([make_task("a", rubric="math")], ["--rubric", "nope"], "'nope' is not a rubric of work"),
        ([make_task("a", rubric="math")], ["--rubric", "math"], "'math' is not a rubric of work"),
        ([make_task("a", rubric="workflow")], [], "task a has the rubric workflow"),
        ([make_task("a", rubric="math"), make_task("a", rubric="math")], [], "stands there twice"),
    ],
)
def test_tasks_that_could_not_be_scored_are_refused(
    rows: list[Task], given: list[str], said: str, tmp_path: Path
) -> None:
    write_tasks(rows, tmp_path / "plain.jsonl")
    words = ["tasks", str(tmp_path / "plain.jsonl"), "--output", str(tmp_path / "made.jsonl")]
    found = CliRunner().invoke(app, [*words, *given])
    assert isinstance(found.exception, DatasetError)
    assert said in str(found.exception)
    assert not (tmp_path / "made.jsonl").exists()


@pytest.mark.parametrize("calls", [True, "3", 3.0])
def test_a_budget_is_a_number_as_it_stands(calls: object) -> None:
    with pytest.raises(ValidationError):
        RunBudgets.model_validate({"calls": calls})
    assert RunBudgets.model_validate({"calls": 3, "time_s": 90}).calls == 3
