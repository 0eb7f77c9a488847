"""Answers as long as the policy's context are refused for every arm, before anything is trained."""

from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import ConfigError
from assay_trainer.ablation.plan_rules import read_checked
from tests.support.policies import TINY, make_policy_folder
from tests.unit.trainer.ablation.test_arms import RUN
from tests.unit.trainer.ablation.test_plan_rules import write

CONTEXT = 256
SAMPLED = {"kind": "sampled", "temperature": 1.0}


def measured(**protocol: Any) -> dict[str, Any]:
    return {"evaluation": {"metrics": ["pass@1"], "protocol": protocol}}


@pytest.mark.parametrize("needs_files", [True, False])
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (
            {"arms": {"first": {}, "long": {"grpo.max_tokens": CONTEXT}}},
            "arms.long: grpo.max_tokens",
        ),
        (measured(**SAMPLED, max_tokens=CONTEXT), "evaluation.protocol.max_tokens"),
        ({"overrides": {"evaluation.max_tokens": CONTEXT}}, "evaluation.max_tokens"),
    ],
)
def test_an_answer_as_long_as_the_context_is_refused(
    tmp_path: Path, changes: dict[str, Any], field: str, needs_files: bool
) -> None:
    with pytest.raises(ConfigError, match=f"do not fit the policy's context of {CONTEXT}") as found:
        read_checked(write(tmp_path, **changes), needs_files=needs_files)
    assert found.value.field == field


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": {"first": {}, "long": {"grpo.max_tokens": CONTEXT - 1}}},
        measured(**SAMPLED, max_tokens=CONTEXT - 1),
        measured(kind="budget", temperature=1.0, max_tokens=CONTEXT, budget_tokens=CONTEXT // 2),
        measured(kind="likelihood", max_tokens=CONTEXT),
    ],
)
def test_shorter_answers_are_a_plan(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert read_checked(write(tmp_path, **changes)).arms


def test_the_context_of_a_folder_is_read_and_a_missing_or_damaged_one_is_not_judged(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "policy"
    run = RUN | {"policy": {"folder": str(folder)}, "sft": None}
    arms = {"first": {}, "long": {"grpo.max_tokens": TINY.context_length}}
    file = write(tmp_path, run=run, arms=arms)
    assert read_checked(file).arms
    make_policy_folder(folder)
    with pytest.raises(ConfigError, match=r"arms\.long: grpo\.max_tokens"):
        read_checked(file)
    (folder / "config.json").write_text("{")
    assert read_checked(file).arms
