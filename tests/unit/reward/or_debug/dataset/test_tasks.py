import json
from collections import Counter
from pathlib import Path

import pytest

from assay_reward.or_debug.dataset import tasks
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.models.instance import Instance
from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from tests.support.or_debug.made import made


def many(number: int) -> list[Instance]:
    one = made(CellPlan("A", "easy"), 0)
    return [one.model_copy(update={"id": f"a-{at:03d}"}) for at in range(number)]


def test_a_task_has_the_model_in_its_prompt_and_the_label_nowhere_in_it() -> None:
    one = made(CellPlan("C", "medium"), 7)
    task = tasks.to_task(one, Role.TRAIN, max_turns=6)
    assert task.prompt.endswith(one.model.text())
    assert "6 replies" in task.prompt
    assert task.rubric == "or_debug.faithful"
    assert task.environment is not None
    assert (task.environment.name, task.environment.max_turns) == ("or_debug", 6)
    assert Instance.model_validate(task.environment.instance) == one
    assert task.tags["error_type"] == "C"
    assert one.id not in task.prompt
    assert all(name not in task.prompt for name in one.names.values())


def test_a_prompt_shows_rules_and_model_or_the_model_or_its_size() -> None:
    one = made(CellPlan("A", "easy"), 0)
    text = one.model.text()
    rules, model, size = (
        tasks.to_task(one, Role.TRAIN, shown=shown).prompt for shown in tasks.Shown
    )
    assert rules.endswith(f"\n\n{text}")
    assert len(rules) > len(text) + 100
    assert model == text
    num_columns, num_rows = len(one.model.columns), len(one.model.rows)
    assert size == f"{num_columns} columns and {num_rows} rows: infeasible"


def test_a_prompt_that_tells_is_refused() -> None:
    one = made(CellPlan("A", "easy"), 0)
    row = one.model.rows[0].model_copy(update={"name": "_saboteur_lower_x0"})
    telling = one.model_copy(update={"model": one.model.with_row(row)})
    with pytest.raises(DatasetError, match="_saboteur_lower_x0"):
        tasks.to_task(telling, Role.TRAIN)


@pytest.mark.slow
def test_roles_are_split_by_the_seed_and_every_cell_has_each() -> None:
    for number in (3, 10, 200):
        roles = [task.role for task in tasks.of_cell(many(number), seed=1)]
        counts = Counter(roles)
        assert counts[Role.TEST] == counts[Role.VALIDATION] == max(1, number // 10)
        assert roles == [task.role for task in tasks.of_cell(many(number), seed=1)]
    other = [task.role for task in tasks.of_cell(many(200), seed=2)]
    assert other != roles


def test_a_role_does_not_hang_on_the_order() -> None:
    forward = {task.id: task.role for task in tasks.of_cell(many(30), seed=1)}
    backward = {task.id: task.role for task in tasks.of_cell(many(30)[::-1], seed=1)}
    assert forward == backward


def test_a_file_of_tasks_reads_back(tmp_path: Path) -> None:
    made_of = tasks.of_cell(many(3), seed=1)
    tasks.save(made_of, tmp_path / "tasks.jsonl")
    lines = (tmp_path / "tasks.jsonl").read_text().splitlines()
    assert [Task.model_validate_json(line) for line in lines] == made_of


def test_every_row_names_its_role_for_the_trainer(tmp_path: Path) -> None:
    """The role for tests is a task's default, and a trainer takes no row without a role."""
    made_of = many(len(Role))
    roles = list(Role)
    found = [tasks.to_task(one, role) for one, role in zip(made_of, roles, strict=True)]
    tasks.save(found, tmp_path / "tasks.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert [row["role"] for row in rows] == roles
    assert [Task.model_validate(row) for row in rows] == found
