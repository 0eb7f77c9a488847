"""A stage that its tasks can never end, or never begin, is refused before anything is trained."""

from typing import Any

import pytest

from assay_shared.errors import AssayError, ConfigError
from assay_shared.settings.run_file import parse_config
from assay_trainer.config import RunConfig
from assay_trainer.curriculum.stage_rules import check_stages
from tests.unit.trainer.curriculum.stages import TASKS, stage

#: A stage of three levels has all 18 tasks: their lower bound is 18 / (18 + 1.96 ** 2).
UNTIL = {"min_steps": 1, "max_steps": 9, "every": 1}


def staged(one: dict[str, Any], *, allow_inert: bool = False, **others: Any) -> RunConfig:
    values = {
        "policy": {"new": {}},
        "data": {name: {"kind": "generated", "num_tasks": 1} for name in ("train", "held_out")},
        "grpo": {"steps": 9, "allow_inert": allow_inert},
        "curriculum": {"stages": [one], **others},
    }
    return parse_config(RunConfig, values, source="the test")


def ended_by(pass_rate: float, **others: Any) -> dict[str, Any]:
    return {"name": "all", "until": UNTIL | {"pass_rate": pass_rate} | others}


@pytest.mark.parametrize(
    ("one", "others", "told", "remedy"),
    [
        (
            ended_by(0.95),
            {},
            "pass_rate 0.95 cannot end the stage all: with 18 held-out tasks, all of them solved, "
            "the lower bound is 0.824",
            "at most 0.824, or measure the stage on 73 tasks (data.held_out)",
        ),
        (
            ended_by(0.8),
            {"measure": {"limit": 9}},
            "with 9 held-out tasks",
            "at most 0.700, or measure the stage on 16 tasks (curriculum.measure.limit)",
        ),
        (ended_by(0.82, confidence=0.99), {}, "the lower bound is 0.730", "on 31 tasks"),
    ],
)
def test_a_pass_rate_that_the_held_out_tasks_cannot_show_is_refused(
    one: dict[str, Any], others: dict[str, Any], told: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_stages(staged(one, **others), TASKS, TASKS)
    assert refused.value.field == "curriculum.stages all.until.pass_rate"
    assert told in refused.value.message
    assert remedy in str(refused.value.hint)
    check_stages(staged(one, allow_inert=True, **others), TASKS, TASKS)
    check_stages(staged(one, **others), TASKS, None)


def test_a_pass_rate_at_the_greatest_bound_is_not_refused() -> None:
    check_stages(staged(ended_by(0.82)), TASKS, TASKS)
    check_stages(staged(ended_by(0.95)), TASKS, [*TASKS] * 5)


def test_tags_and_steps_are_checked_against_the_tasks_at_hand() -> None:
    wrong = staged(stage("one", "eazy", steps=1))
    for training, held_out in ((TASKS, None), (None, TASKS)):
        with pytest.raises(AssayError, match="task has difficulty: eazy"):
            check_stages(wrong, training, held_out)
    check_stages(wrong, None, None)
    with pytest.raises(AssayError, match="up to 10 steps, and GRPO ends after 9"):
        check_stages(staged(stage("one", "easy", steps=10)), TASKS, TASKS)
