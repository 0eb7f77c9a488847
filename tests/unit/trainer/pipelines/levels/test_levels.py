"""Verdicts of levels of success, from the results of stages."""

from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import ConfigError
from assay_trainer.pipelines.levels.levels import decide_levels, seed_difference
from assay_trainer.pipelines.runner import Pipeline
from tests.support.pipelines import (
    finish,
    open_pipeline,
    write_comparison_of,
    write_measured,
)

GATE = {"metric": "accepted_at_1", "pass_at_least": 0.6, "fail_below": 0.4, "on_fail": "continue"}
TRAIN = {"kind": "train", "run": "run.yaml"}


def evaluate(policy: str = "x", **further: Any) -> dict[str, Any]:
    return {"kind": "evaluate", "policy": policy, "sets": {"held": "held.jsonl"}, **further}


def pipeline(tmp_path: Path, **levels: Any) -> Pipeline:
    (tmp_path / "run.yaml").write_text("name: a\n")
    stages = {
        "one": TRAIN | {"overrides": {"seed": 1}},
        "two": TRAIN | {"overrides": {"seed": 2}},
        "other": TRAIN | {"overrides": {"seed": 2, "sft.steps": 3}},
        "before": evaluate(gates=[GATE]),
        "after": evaluate("stage:one"),
        "again": evaluate("stage:two"),
        "compare": {"kind": "compare", "evaluations": ["before", "after"]},
    }
    return open_pipeline(tmp_path, stages, levels=levels)


def verdicts(found: Pipeline) -> dict[str, str]:
    levels = decide_levels(found.config.levels, found.results())
    return {one.level: one.verdict for one in levels}


def reason(found: Pipeline, level: str = "a") -> str:
    levels = decide_levels(found.config.levels, found.results())
    return next(one for one in levels if one.level == level).conditions[0].reason


@pytest.mark.parametrize(("right", "verdict"), [(20, "FAIL"), (50, "INCONCLUSIVE"), (80, "PASS")])
def test_a_gate_decides_a_level_and_the_next_level_includes_it(
    tmp_path: Path, right: int, verdict: str
) -> None:
    levels = {"a": [{"gate": "before"}], "b": [{"done": "before"}], "c": []}
    found = pipeline(tmp_path, **levels)
    assert verdicts(found) == dict.fromkeys("abc", "INCONCLUSIVE")
    assert reason(found) == "before is not done"
    write_measured(found, "before", right)
    finish(found, "before")
    assert verdicts(found) == dict.fromkeys("abc", verdict)
    assert "accepted_at_1 of held" in reason(found)


def test_a_stage_that_was_left_out_fails_its_level(tmp_path: Path) -> None:
    found = pipeline(tmp_path, a=[{"done": "one"}])
    finish(found, "one", reason="the budget does not allow its expected cost")
    assert verdicts(found) == {"a": "FAIL"}
    assert reason(found) == "one was left out: the budget does not allow its expected cost"


@pytest.mark.parametrize(
    ("right", "verdict"), [((40, 70), "PASS"), ((70, 40), "FAIL"), ((50, 52), "INCONCLUSIVE")]
)
def test_significance_is_that_of_the_corrected_test(
    tmp_path: Path, right: tuple[int, int], verdict: str
) -> None:
    found = pipeline(tmp_path, a=[{"significant": "compare", "metric": "accepted_at_1"}])
    output = found.stages["compare"].folder.output
    output.mkdir(parents=True)
    arms = {"before": right[0], "after": right[1]}
    write_comparison_of(output, tmp_path / "arms", arms, ("1", "2"))
    finish(found, "compare")
    assert verdicts(found) == {"a": verdict}
    assert "corrected p" in reason(found)


def test_two_seeds_differ_in_a_seed_alone(tmp_path: Path) -> None:
    levels = {"a": [{"seeds": ["after", "again"]}]}
    found = pipeline(tmp_path, **levels)
    assert seed_difference(found.results(), "one", "two") is None
    told = seed_difference(found.results(), "one", "other")
    assert told == "one and other differ in more than a seed"
    assert seed_difference(found.results(), "after", "again") is None
    told = seed_difference(found.results(), "before", "again")
    assert told == "before and again differ in more than a seed"
    for name, right in (("after", 60), ("again", 70)):
        write_measured(found, name, right)
        finish(found, name)
    assert verdicts(found) == {"a": "PASS"}
    assert reason(found) == (
        "accepted_at_1 of held: mean 0.650, standard deviation 0.071 over 2 seeds"
    )


def test_the_same_seed_twice_is_not_two_seeds(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("name: a\n")
    stages = {"one": TRAIN, "two": TRAIN}
    found = open_pipeline(tmp_path, stages, levels={"a": [{"seeds": ["one", "two"]}]})
    assert seed_difference(found.results(), "one", "two") == "one and two have the same seed"


def test_an_error_analysis_is_samples_that_people_can_read(tmp_path: Path) -> None:
    found = pipeline(tmp_path, a=[{"error_analysis": "before"}])
    write_measured(found, "before", 30)
    finish(found, "before")
    assert verdicts(found) == {"a": "PASS"}
    assert "accepted 30, wrong_answer 70" in reason(found)
    (found.stages["before"].folder.output / "qa" / "held.jsonl").unlink()
    assert verdicts(found) == {"a": "FAIL"}


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({}, "give exactly one of done"),
        ({"done": "one", "gate": "before"}, "give exactly one of done"),
        ({"done": "nobody"}, "there is no stage nobody"),
        ({"significant": "one"}, "significant needs a stage of kind compare"),
        ({"error_analysis": "one"}, "error_analysis needs an evaluation"),
        ({"gate": "one"}, "has no gates"),
        ({"seeds": ["one"]}, "seeds needs at least two stages"),
        ({"seeds": ["one", "before"]}, "seeds needs stages of one kind"),
        ({"done": "one", "metric": "a"}, "metric goes with gate or significant"),
    ],
)
def test_conditions_that_cannot_be_decided_are_refused(
    tmp_path: Path, condition: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        pipeline(tmp_path, a=[condition])
    assert message in f"{refused.value.field} {refused.value.message}"
