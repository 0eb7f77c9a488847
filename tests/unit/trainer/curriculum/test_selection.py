"""A tag, a value or a cell without tasks is an error, and never left out silently."""

from typing import Any

import pytest

from assay_shared.errors import ConfigError
from assay_trainer.curriculum.selection import stage_tasks
from tests.support.fakes import make_task
from tests.unit.trainer.curriculum.stages import TASKS, curriculum, stage


def refusal(*stages: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as refused:
        stage_tasks(curriculum(*stages), TASKS, "training")
    return f"{refused.value}"


def test_tasks_of_a_stage_have_all_of_its_tags() -> None:
    where = {"difficulty": ["easy", "hard"], "error_type": "D"}
    (found,) = stage_tasks(curriculum({"name": "s", "where": where, "steps": 1}), TASKS, "training")
    assert {task.id for task in found.tasks} == {
        f"{level}{i}" for level in ("easy", "hard") for i in (1, 3, 5)
    }


def test_a_tag_a_value_or_a_cell_without_tasks_is_named() -> None:
    told = refusal({"name": "s", "where": {"level": "easy"}, "steps": 1})
    assert "curriculum.stages s.where: no training task has the tag 'level'" in told
    assert "difficulty, domain, error_type" in told.replace("dataset, ", "")
    assert "no training task has difficulty: hrad" in refusal(stage("s", "hrad", steps=1))
    without = [task for task in TASKS if task.tags != {"difficulty": "hard", "error_type": "A"}]
    where = {"difficulty": ["easy", "hard"], "error_type": ["A", "D"]}
    with pytest.raises(ConfigError, match="no held-out task has difficulty: hard, error_type: A"):
        stage_tasks(curriculum({"name": "s", "where": where, "steps": 1}), without, "held-out")


def test_parts_with_tasks_in_common_are_refused() -> None:
    mix = [{"where": {"difficulty": "easy"}}, {"where": {"error_type": "A"}}]
    assert "have the training task easy0 in common" in refusal(
        {"name": "s", "mix": mix, "steps": 1}
    )


def test_a_task_without_a_domain_has_its_dataset_as_domain() -> None:
    tasks = [make_task("a"), make_task("b", tags={"domain": "sums"})]
    config = curriculum({"name": "s", "where": {"domain": "test"}, "steps": 1})
    (found,) = stage_tasks(config, tasks, "training")
    assert [task.id for task in found.tasks] == ["a"]


@pytest.mark.parametrize(
    ("stages", "others", "message"),
    [
        ([stage("a", "easy")], {}, "exactly one of steps, epochs and until"),
        ([stage("a", "easy", steps=1, epochs=1)], {}, "exactly one of steps, epochs and until"),
        ([stage("a", "easy", steps=1)] * 2, {}, "each stage needs its own name"),
        ([stage("a", "easy", epochs=1)], {"pool": {}}, "pool goes with steps or until"),
        ([stage("a", "easy", steps=1)], {"arm": "b"}, "arm goes with from"),
        ([stage("a", "easy", steps=1)], {"from": "x"}, "leave it out"),
        (
            [
                {
                    "name": "a",
                    "mix": [
                        {"where": {"difficulty": "easy"}, "weight": 2},
                        {"where": {"difficulty": "hard"}},
                    ],
                    "epochs": 1,
                }
            ],
            {},
            "each task is sampled once",
        ),
        (
            [stage("a", "easy", until={"pass_rate": 0.5, "min_steps": 3, "max_steps": 2})],
            {},
            "max_steps must be at least min_steps",
        ),
        (
            [stage("a", "easy", until={"pass_rate": 0.5, "min_steps": 1, "max_steps": 2})],
            {"measure": None},
            "ends by a pass rate",
        ),
    ],
)
def test_stages_that_cannot_be_meant_are_refused(
    stages: list[dict[str, Any]], others: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        curriculum(*stages, **others)
