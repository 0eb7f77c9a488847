"""Arms from an ablation file: what they change, and what they may not."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import ConfigError
from assay_trainer.ablation.arms import (
    CURVE,
    TIER,
    AblationPlan,
    arm_config,
    changed_fields,
    read_ablation,
    start_config,
)
from assay_trainer.inert_rules import inert_switches
from tests.unit.trainer.curriculum.test_winner import OVERRIDES, ablation

RUN: dict[str, Any] = {
    "policy": {"new": {}},
    "data": {
        "train": {"kind": "generated", "num_tasks": 4},
        "held_out": {"kind": "generated", "num_tasks": 2},
    },
    "sft": {"steps": 5},
    "grpo": {"steps": 4, "clip_high": 0.3},
    "evaluation": {"samples_per_task": 3, "k": [1], "max_tokens": 24, "stop": ["\n\n"]},
}
ARMS: dict[str, Any] = {
    "first": {},
    "kl": {"grpo.kl_weight": 0.1},
    "rate": {"grpo.learning_rate": 1e-4},
}


def read(folder: Path, **changes: Any) -> AblationPlan:
    (folder / "base.yaml").write_text(yaml.safe_dump(RUN))
    values = {"base": "base.yaml", "arms": ARMS} | changes
    (folder / "ablation.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return read_ablation(folder / "ablation.yaml")


def test_cumulative_arms_keep_the_changes_before_them(tmp_path: Path) -> None:
    plan = read(tmp_path)
    rate = plan.arm("rate")
    assert rate.previous == "kl"
    assert rate.overrides == {"grpo.kl_weight": 0.1, "grpo.learning_rate": 1e-4}
    configs = [arm_config(plan, one, 1, None) for one in plan.arms]
    assert changed_fields(configs[1], configs[2]) == {"grpo.learning_rate": (3e-4, 1e-4)}


def test_one_at_a_time_each_arm_is_the_first_with_its_own_change(tmp_path: Path) -> None:
    plan = read(tmp_path, mode="one_at_a_time")
    assert [one.previous for one in plan.arms] == [None, "first", "first"]
    assert plan.arm("rate").overrides == {"grpo.learning_rate": 1e-4}


def test_the_start_is_the_base_before_grpo_and_an_arm_begins_with_its_weights(
    tmp_path: Path,
) -> None:
    plan = read(tmp_path)
    start = start_config(plan)
    assert start.sft is not None
    assert start.grpo is None
    arm = arm_config(plan, plan.arms[0], 7, Path("/start"))
    assert (arm.policy.folder, arm.seed, arm.sft) == (Path("/start"), 7, None)
    assert arm.data.train == start.data.train


def test_the_base_may_have_the_winner_of_another_ablation(tmp_path: Path) -> None:
    """Arms then begin with its start and its settings, which an arm may change."""
    stage = {"name": "all", "steps": 4}
    run = {"data": RUN["data"], "grpo": {"steps": 4}}
    run["curriculum"] = {"from": str(ablation(tmp_path)), "stages": [stage]}
    arms = {"won": {}, "narrow": {"grpo.clip_high": 0.25}}
    plan = read(tmp_path, base=None, run=run, arms=arms)
    assert start_config(plan).policy.folder == tmp_path / "start"
    won, narrow = (arm_config(plan, one, 1, None) for one in plan.arms)
    assert won.grpo is not None
    assert won.grpo.clip_high == OVERRIDES["grpo.clip_high"]
    assert changed_fields(won, narrow) == {"grpo.clip_high": (0.3, 0.25)}
    other = read(tmp_path, base=None, run=run, arms=arms, overrides={"curriculum.arm": "baseline"})
    baseline = arm_config(other, other.arms[0], 1, None).grpo
    assert baseline is not None
    assert baseline.kl_weight == 0.001


def test_the_dropout_of_sft_is_the_starts_alone(tmp_path: Path) -> None:
    lora = {"rank": 4, "dropout": 0.1}
    run = {**RUN, "policy": {"new": {}, "lora": lora}}
    plan = read(tmp_path, base=None, run=run)
    start = start_config(plan)
    assert start.policy.lora is not None
    assert start.policy.lora.dropout == 0.1
    for folder in (None, tmp_path):
        arm = arm_config(plan, plan.arms[0], 1, folder)
        assert arm.policy.lora == start.policy.lora.model_copy(update={"dropout": 0.0})
        assert inert_switches(arm) == []


def test_start_and_arms_are_measured_by_one_protocol_that_is_the_bases(tmp_path: Path) -> None:
    plan = read(tmp_path, evaluation={"curve_every": 2})
    (at_end,) = start_config(plan).evaluation.tiers
    arm = arm_config(plan, plan.arms[1], 1, None)
    end, curve = arm.evaluation.tiers
    assert at_end == end
    assert (end.name, curve.name, curve.at) == (TIER, CURVE, "checkpoints")
    assert dict(end.protocol) == {
        "kind": "sampled",
        "samples_per_task": 3,
        "temperature": 1.0,
        "max_tokens": 24,
        "stop": ["\n\n"],
    }
    assert arm.grpo is not None
    assert arm.grpo.checkpoint_every == 2


def test_the_losss_own_average_is_no_change_and_another_is(tmp_path: Path) -> None:
    arms = {
        "null": {},
        "own": {"grpo.average": "token"},
        "loss": {"grpo.loss": "grpo", "grpo.average": "token"},
        "both": {"grpo.loss": "grpo", "grpo.average": "sequence"},
    }
    plan = read(tmp_path, arms=arms, mode="one_at_a_time")
    null, own, loss, both = (arm_config(plan, one, 1, None) for one in plan.arms)
    assert changed_fields(null, own) == {}
    assert changed_fields(own, loss) == {"grpo.loss": ("dapo", "grpo")}
    assert changed_fields(null, loss) == {"grpo.loss": ("dapo", "grpo")}, "the average stays"
    assert changed_fields(own, both)["grpo.average"] == ("token", "sequence")


def test_a_nested_arm_that_lacks_fields_is_told_of_dotted_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, arms={"first": {}, "nested": {"grpo": {"average": "constant"}}})
    assert refused.value.field == "grpo.steps"
    assert 'grpo.average: "constant"' in (refused.value.hint or "")
    assert "arms.nested replaces the whole section grpo" in (refused.value.hint or "")
    whole = {"grpo": {"steps": 4, "average": "constant"}}
    assert read(tmp_path, arms={"first": {}, "nested": whole}).arms, "a whole section may be meant"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"arms": {"a": {}, "b": {"data.train.num_tasks": 3}}}, "never what is measured"),
        ({"arms": {"a": {}, "b": {"evaluation.max_tokens": 3}}}, "cannot differ between arms"),
        ({"arms": {"a": {}, "b": {"curriculum.arm": "c"}}}, "curriculum.arm cannot differ"),
        ({"arms": {"a": {}, "b": {"curriculum": {"from": "c"}}}}, "curriculum.from cannot differ"),
        ({"arms": {"a": {}, "b": {"grpo.clip": 3}}}, "did you mean"),
        ({"arms": {"a": {}}}, "at least 2"),
        ({"arms": {"start": {}, "b": {}}}, "uses it for another row"),
        ({"seeds": [1, 1]}, "stands there twice"),
        ({"goals": [{"metric": "pass@1", "arm": "x", "at_least": 1}]}, "the arms are"),
        ({"goals": [{"metric": "reward", "at_least": 1}]}, "evaluation.metrics are"),
        ({"goals": [{"metric": "pass@1"}]}, "exactly one of at_least"),
        ({"run": RUN}, "exactly one of base and run"),
        ({"evaluation": {"metrics": ["pass@0"]}}, "cannot be a metric"),
        ({"overrides": {"grpo": None}}, "train by GRPO"),
    ],
)
def test_a_wrong_file_is_refused_with_what_would_be_right(
    changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, **changes)
    assert told in f"{refused.value} {refused.value.hint}"


CONFIGS = Path(__file__).parents[4] / "configs"
FILES = sorted([*CONFIGS.glob("ablations/*.yaml"), *CONFIGS.glob("*/ablation.yaml")])


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_example_file_gives_a_plan_with_seeds_enough(file: Path) -> None:
    plan = read_ablation(file)
    assert len(plan.config.seeds) >= 4
    assert len(plan.arms) >= 2
