"""A study takes an evaluation only with each of its episodes, once, and with possible metrics."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assay_reward.or_debug.dataset.tasks import save
from assay_reward.or_debug.episode.metrics import CLAIM, METRIC_KINDS
from assay_reward.or_debug.evaluate.run import EvaluationRun, run
from assay_reward.or_debug.study.checked_episodes import check_same_tasks, read_checked_evaluation
from assay_shared.errors import DatasetError
from assay_shared.types import Role
from tests.support.fakes import FAILURE
from tests.support.or_debug.planted import INSTANCE, make_or_task

Rows = list[dict[str, Any]]
NUM_TASKS = 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation of three tasks, with an episode of `probe` on each."""
    home = tmp_path_factory.mktemp("made")
    tasks = [
        make_or_task(INSTANCE.model_copy(update={"id": f"t{at}"})).model_copy(
            update={"role": Role.TEST, "tags": {"error_type": "A", "difficulty": "easy"}}
        )
        for at in range(NUM_TASKS)
    ]
    save(tasks, home / "tasks.jsonl")
    asked = EvaluationRun(
        data=home / "tasks.jsonl", policy="probe", output=home / "out", baselines=False
    )
    run(asked, Console(quiet=True))
    return home / "out"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def edit_episodes(folder: Path, edit: Callable[[Rows], Rows | None]) -> None:
    file = folder / "episodes.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    edited = edit(rows)
    kept = rows if edited is None else edited
    file.write_text("".join(json.dumps(row) + "\n" for row in kept))


def edit_evaluation(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    file = folder / "evaluation.json"
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))


def metric(name: str, value: object) -> Callable[[Rows], None]:
    return lambda rows: rows[1]["metrics"].update({name: value})


def failed(rows: Rows, **changes: object) -> None:
    rows[1].update(failure=FAILURE.model_dump(mode="json"), **changes)


def test_what_evaluate_writes_can_be_read(folder: Path) -> None:
    found = read_checked_evaluation(folder)
    assert [one.task_id for one in found.own] == ["t0", "t1", "t2"]
    assert found.of_baselines == []
    played = {name for one in found.own for name in one.metrics}
    assert played | {CLAIM} == METRIC_KINDS.keys()
    check_same_tasks(found, found)


@pytest.mark.parametrize(
    ("edit", "field", "message"),
    [
        (lambda rows: rows[:1], "task_id", "no episode of task t1, sample 0: 2 of the 3"),
        (lambda rows: [], "task_id", "3 of the 3 episodes"),
        (lambda rows: [*rows, rows[1]], "id", "jsonl:4: 'probe/t1/0' stands in line 2"),
        (lambda rows: [*rows, rows[1] | {"task_id": "t1b"}], "task_id", "task t1b: .* no such"),
        (lambda rows: [*rows, rows[1] | {"sample": 1}], "sample", "t1: 1 is not below the 1"),
        (lambda rows: rows[1].update(sample=-1), "sample", "t1: -1 is not below"),
        (lambda rows: rows[1].update(policy="other"), "policy", "no policy 'other'"),
        (lambda rows: rows[1].update(difficulty="hard"), "difficulty", "'hard' here and 'easy'"),
        (lambda rows: rows[1].update(cell="B/easy"), "cell", "'B/easy' here and 'A/easy'"),
        (metric("rr@5", math.nan), "metrics.rr@5", "jsonl:2: task t1: must be 0 or 1, not nan"),
        (metric("rr@5", 0.5), "metrics.rr@5", "must be 0 or 1, not 0.5"),
        (metric("op", 5.0), "metrics.op", "must be from 0 to 1, not 5"),
        (metric("op", -0.1), "metrics.op", "must be from 0 to 1, not -0.1"),
        (metric("tokens", math.inf), "metrics.tokens", "a whole number from 0, not inf"),
        (metric("steps", 1.5), "metrics.steps", "a whole number from 0, not 1.5"),
        (metric("luck", 1.0), "metrics.luck", "there is no such metric"),
        (metric("rr@5", 0.0), "rr@5", "in cell A/easy is 0.666.*, and 1 in evaluation.json"),
        (lambda rows: rows[1]["metrics"].pop("rr@5"), "metrics.rr@5", "task t1: it has no rr@5"),
        (failed, "metrics", "a failed episode has no metrics"),
        (lambda rows: failed(rows, metrics={}), "failed", "is 1, and 0 in evaluation.json"),
    ],
)
def test_episodes_that_cannot_be_are_refused(
    folder: Path, edit: Callable[[Rows], Rows | None], field: str, message: str
) -> None:
    edit_episodes(folder, lambda rows: found if isinstance(found := edit(rows), list) else None)
    with pytest.raises(DatasetError, match=message) as refused:
        read_checked_evaluation(folder)
    assert refused.value.field == field
    assert "episodes.jsonl" in str(refused.value)


@pytest.mark.parametrize(
    ("edit", "field", "message"),
    [
        (lambda content: content.pop("tasks"), "tasks", "the file has no 'tasks'"),
        (lambda content: content.update(tasks=[]), "tasks", "at least 1 item"),
        (lambda content: content["tasks"].append(content["tasks"][0]), None, "'t0' 2 times"),
        (lambda content: content["asked"].update(samples=0), "asked.samples", "greater than"),
        (lambda content: content["asked"].pop("samples"), "asked.samples", "no 'asked.samples'"),
        (lambda content: content.update(policies=["other"]), None, "must be the policy of"),
        (lambda content: content["asked"].update(seed=math.nan), None, "NaN is not a number"),
    ],
)
def test_an_evaluation_without_what_the_check_needs_is_refused(
    folder: Path, edit: Callable[[dict[str, Any]], object], field: str | None, message: str
) -> None:
    edit_evaluation(folder, edit)
    with pytest.raises(DatasetError, match=message) as refused:
        read_checked_evaluation(folder)
    assert refused.value.field == field
    assert "evaluation.json" in str(refused.value)
    assert refused.value.hint == "evaluate the policy again with assay or-debug evaluate"


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"id": "t9"}, "tasks", "task t9 is in other and not in"),
        ({"cell": "B/easy"}, "tasks.cell", "task t2 has 'B/easy', and 'A/easy' in"),
        ({"difficulty": "hard"}, "tasks.difficulty", "task t2 has 'hard', and 'easy' in"),
        (None, "tasks", "task t2 is in .* and not in other"),
    ],
)
def test_other_tasks_than_the_starts_are_refused(
    made: Path, changed: dict[str, str] | None, field: str, message: str
) -> None:
    start = read_checked_evaluation(made)
    *kept, last = start.file.tasks
    tasks = (*kept, *([] if changed is None else [last.model_copy(update=changed)]))
    file = start.file.model_copy(update={"tasks": tasks})
    with pytest.raises(DatasetError, match=message) as refused:
        check_same_tasks(replace(start, folder=Path("other"), file=file), start)
    assert refused.value.field == field
