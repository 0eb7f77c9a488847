"""An ablation file that could not be decided is refused as it stands, with the field's name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import ConfigError, DatasetError, RoleError
from assay_shared.settings.run_file import parse_config
from assay_shared.types import EnvironmentTask, Role, Task
from assay_trainer.ablation.arms import changed_fields
from assay_trainer.ablation.plan_rules import read_checked
from assay_trainer.config import RunConfig
from assay_trainer.grpo_config import GRPOConfig
from tests.support.fakes import make_task
from tests.unit.trainer.ablation.test_arms import ARMS, FILES, RUN

CLIP = GRPOConfig.model_fields["clip_high"].default
ON_POLICY: dict[str, Any] = {"grpo.max_staleness": 0, "grpo.clip_high": CLIP}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "ablation.yaml"
    values = {"run": RUN, "arms": ARMS, "evaluation": {"metrics": ["pass@1", "reward"]}}
    path.write_text(yaml.safe_dump(values | changes, sort_keys=False))
    return path


EASY: dict[str, Any] = {"difficulty": "easy"}
HARD: dict[str, Any] = {"difficulty": ["hard"]}


def mixed(*parts: tuple[dict[str, Any], float]) -> dict[str, Any]:
    mix = [{"where": where, "weight": weight} for where, weight in parts]
    return {"curriculum": {"stages": [{"name": "m", "mix": mix, "steps": 4}]}}


def stage(name: str, difficulties: list[str]) -> dict[str, Any]:
    return {"name": name, "where": {"difficulty": difficulties}, "steps": 4}


def goal(arm: str | None, against: str | None, **bound: float) -> dict[str, Any]:
    return {"metric": "pass@1", "arm": arm, "against": against, **bound}


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        (
            {"overrides": ON_POLICY, "arms": {"first": {}, "clip": {"grpo.clip_high": 0.4}}},
            "arms.clip: grpo.clip_high",
            "clip_high cannot act",
        ),
        (
            {"arms": {"first": {}, "k3": {"grpo.kl_estimator": "k1"}}},
            "arms.k3: grpo.kl_estimator",
            "kl_weight is 0",
        ),
        ({"evaluation": {"metrics": ["or_faithful"]}}, "evaluation.metrics", "no task of the held"),
        ({"evaluation": {"metrics": ["rr@5"]}}, "evaluation.metrics", "rr@5 is of or_debug"),
        (
            {
                "evaluation": {
                    "metrics": ["pass@4"],
                    "protocol": {"kind": "sampled", "samples_per_task": 2, "temperature": 1.0},
                }
            },
            "evaluation.metrics",
            "pass@4 needs 4 samples of a task, and samples_per_task is 2",
        ),
        (
            {"evaluation": {"metrics": ["pass@1"], "curve_every": 5}},
            "evaluation.curve_every",
            "held_out has rows for tests alone",
        ),
        (
            {"goals": [goal("kl", None, at_least=1.5)]},
            "goals.0.at_least",
            "pass@1 is from 0 to 1, and the goal's bound is 1.5",
        ),
        (
            {"goals": [goal("kl", "start", at_most=-1.2)]},
            "goals.0.at_most",
            "a difference in pass@1 is from -1 to 1",
        ),
        (
            {"goals": [goal("kl", None, at_least=1)]},
            "goals.0.at_least",
            "pass@1 is from 0 to 1, so no interval lies above 1",
        ),
        (
            {"goals": [goal("kl", None, at_least=0.1), goal("kl", None, at_most=0.0)]},
            "goals.1.at_most",
            "pass@1 is from 0 to 1, so no interval lies below 0",
        ),
        (
            {"goals": [goal("kl", "start", at_most=-1)]},
            "goals.0.at_most",
            "a difference in pass@1 is from -1 to 1, so no interval lies below -1",
        ),
        (
            {
                "evaluation": {"metrics": ["tokens"]},
                "goals": [{"metric": "tokens", "arm": "kl", "at_most": 0}],
            },
            "goals.0.at_most",
            "tokens is never below 0, so no interval lies below 0",
        ),
        (
            {"goals": [goal("kl", "start", at_least=-1)]},
            "goals.0.at_least",
            "a difference in pass@1 is from -1 to 1, so every arm reaches -1",
        ),
        (
            {"goals": [goal("kl", None, at_most=1)]},
            "goals.0.at_most",
            "pass@1 is from 0 to 1, so every arm reaches 1",
        ),
        ({"goals": [goal("kl", "kl", at_least=0.0)]}, "goals.0.against", "with itself"),
        (
            {"goals": [goal("kl", None, at_least=0.02), goal("kl", None, at_most=0.01)]},
            "goals.1",
            "goals.0 and goals.1 cannot both be met",
        ),
        (
            {"goals": [goal("kl", "rate", at_least=0.02), goal("rate", "kl", at_least=-0.01)]},
            "goals.1",
            "cannot both be met",
        ),
        (
            {"mode": "one_at_a_time", "arms": ARMS | {"again": {"grpo.kl_weight": 0.1}}},
            "arms.again",
            "the arms kl and again have the same settings",
        ),
        (
            {"arms": {"first": {}, "same": {"grpo.clip_high": 0.3}}},
            "arms.same",
            "first and same",
        ),
        (
            {"arms": {"first": {}, "own": {"grpo.average": "token"}}},
            "arms.own",
            "the arms first and own have the same settings",
        ),
        (
            {
                "mode": "one_at_a_time",
                "overrides": {"grpo.updates_per_step": 2},
                "arms": {
                    "first": {},
                    "kind": {"grpo.correction": "icepop"},
                    "wide": {"grpo.correction": {"kind": "icepop", "low": 0.5, "high": 6}},
                    "own": {"grpo.correction": {"kind": "icepop", "low": 0.5, "high": 5}},
                },
            },
            "arms.own",
            "the arms kind and own have the same settings",
        ),
        (
            {
                "arms": {
                    "first": {"curriculum": {"stages": [stage("a", ["easy", "hard"])]}},
                    "own": {"curriculum": {"stages": [stage("b", ["hard", "easy"])]}},
                },
            },
            "arms.own",
            "the arms first and own have the same settings",
        ),
    ],
)
def test_what_could_not_be_decided_is_refused(
    tmp_path: Path, changes: dict[str, Any], field: str, told: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read_checked(write(tmp_path, **changes))
    assert refused.value.field == field
    assert told in refused.value.message


@pytest.mark.parametrize(
    "changes",
    [
        {
            "overrides": ON_POLICY | {"grpo.allow_inert": True},
            "arms": {"first": {}, "clip": {"grpo.clip_high": 0.4}},
        },
        {"evaluation": {"metrics": ["pass@3", "tokens", "truncated", "pass_ratio"]}, "goals": []},
        {"goals": [goal("kl", None, at_least=0.01), goal("kl", None, at_most=0.02)]},
        {"goals": [goal("kl", "start", at_least=-0.9), goal("kl", None, at_most=0.9)]},
        {"goals": [goal("kl", "start", at_least=0), goal("kl", "start", at_most=0.9)]},
        {"goals": [goal("kl", None, at_least=0.02), goal("rate", None, at_most=0.01)]},
        {"goals": [goal("kl", "rate", at_least=0.02), goal("rate", "kl", at_most=-0.01)]},
    ],
)
def test_what_can_be_decided_is_a_plan(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert read_checked(write(tmp_path, **changes)).arms


def test_a_set_for_training_alone_is_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    task = make_task("t", role=Role.TRAIN)
    rows.write_text(f"{Task.model_dump_json(task)}\n")
    source = {"kind": "jsonl", "path": str(rows)}
    evaluation = {"metrics": ["pass@1"], "sets": {"mine": source}}
    with pytest.raises(RoleError, match="all 1 rows of mine are for training") as refused:
        read_checked(write(tmp_path, evaluation=evaluation))
    assert refused.value.field == "evaluation.sets.mine"


def test_a_set_of_or_debug_has_its_metrics_and_its_missing_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    sets = {"recovery": {"kind": "jsonl", "path": str(path)}}
    metrics = ["rr@5", "or_faithful"]
    file = write(tmp_path, evaluation={"sets": sets, "metrics": metrics})
    with pytest.raises(DatasetError, match=r"evaluation\.sets\.recovery\.path: there is no file"):
        read_checked(file)
    assert read_checked(file, needs_files=False).arms, "a plan is shown without the data"
    task = Task(
        id="a",
        dataset="d",
        role=Role.VALIDATION,
        prompt="p",
        rubric="or_debug.faithful",
        environment=EnvironmentTask(name="or_debug", instance={}),
    )
    path.write_text(task.model_dump_json(exclude_unset=True) + "\n")
    assert read_checked(file).arms
    own = task.model_copy(update={"rubric": "mine", "environment": None})
    path.write_text(own.model_dump_json(exclude_unset=True) + "\n")
    assert read_checked(file, ("evaluation.metrics=[anything]",)).arms, "an own rubric may have it"
    with pytest.raises(ConfigError, match="rr@5 is of or_debug"):
        read_checked(file)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_example_file_can_be_decided(file: Path) -> None:
    assert read_checked(file, needs_files=False).arms


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (mixed((EASY, 1), (HARD, 3)), mixed((EASY, 2), (HARD, 6)), True),
        (mixed((EASY, 1), (HARD, 3)), mixed((EASY, 1), (HARD, 2)), False),
        (mixed((EASY, 1), (HARD, 3)), mixed((HARD, 3), (EASY, 1)), False),
        (mixed((EASY, 1)), {"curriculum": {"stages": [stage("s", ["easy", "easy"])]}}, True),
        ({"grpo.stop": ["a", "b"]}, {"grpo.stop": ["b", "a"]}, True),
        ({"grpo.stop": ["a", "b"]}, {"grpo.stop": ["a"]}, False),
    ],
)
def test_arms_are_the_same_by_what_their_settings_say(
    first: dict[str, Any], second: dict[str, Any], is_same: bool
) -> None:
    values = {
        "policy": {"new": {}},
        "data": {
            "train": {"kind": "generated", "num_tasks": 4},
            "held_out": {"kind": "generated", "num_tasks": 2},
        },
    }
    configs = []
    for one in (first, second):
        grpo = {key.removeprefix("grpo."): v for key, v in one.items() if key != "curriculum"}
        curriculum = {key: v for key, v in one.items() if key == "curriculum"}
        run = values | {"grpo": {"steps": 4} | grpo} | curriculum
        configs.append(parse_config(RunConfig, run, source="a test"))
    assert (changed_fields(*configs) == {}) is is_same
