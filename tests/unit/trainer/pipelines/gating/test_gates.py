"""Verdicts of gates, from the metrics of an evaluation."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import DatasetError
from assay_trainer.pipelines.gating.gates import decide, told_value
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import CommandStage, EvaluateStage


def evaluated(folder: Path, **estimates: Any) -> StageFolder:
    found = StageFolder(folder, "e", "1")
    (found.output / "held").mkdir(parents=True)
    overall = {"num_scored_tasks": 100} | estimates
    (found.output / "held" / "metrics.json").write_text(json.dumps({"overall": overall}))
    return found


def stage(**gate: Any) -> EvaluateStage:
    """An evaluation with a gate, whose built-in checks are left out."""
    sets = {"held": "held.jsonl"}
    return EvaluateStage.model_validate(
        {"kind": "evaluate", "policy": "x", "sets": sets, "gates": [gate]}
        | {"allow_no_change": True}
    )


def estimate(value: float, low: float | None, high: float | None) -> dict[str, float | None]:
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("bound", "low", "high", "verdict", "follows"),
    [
        ({"at_least": 0.4}, 0.4, 0.6, "PASS", "continue"),
        ({"at_least": 0.4}, 0.39, 0.6, "INCONCLUSIVE", "continue"),
        ({"at_least": 0.7}, 0.4, 0.69, "FAIL", "stop"),
        ({"at_most": 0.6}, 0.4, 0.6, "PASS", "continue"),
        ({"at_most": 0.3}, 0.4, 0.6, "FAIL", "stop"),
        ({"at_most": 0.55}, 0.4, 0.6, "INCONCLUSIVE", "continue"),
        ({"at_least": 0.4, "on_inconclusive": "stop"}, 0.3, 0.6, "INCONCLUSIVE", "stop"),
        ({"at_least": 0.7, "on_fail": "continue"}, 0.4, 0.6, "FAIL", "continue"),
        ({"at_least": 0.4}, None, None, "INCONCLUSIVE", "continue"),
    ],
)
def test_the_whole_interval_decides(
    tmp_path: Path, bound: Any, low: float | None, high: float | None, verdict: str, follows: str
) -> None:
    folder = evaluated(tmp_path, accepted_at_1=estimate(0.5, low, high))
    (found,) = decide(stage(action="read the answers", **bound), folder)
    assert (found.verdict, found.follows) == (verdict, follows)
    assert found.action == ("" if verdict == "PASS" else "read the answers")


def test_an_open_verdict_tells_how_many_tasks_would_decide(tmp_path: Path) -> None:
    folder = evaluated(tmp_path, accepted_at_1=estimate(0.5, 0.4, 0.6))
    (found,) = decide(stage(at_least=0.45), folder)
    assert found.tasks_to_decide == 413  # as Wilson's interval of a share shrinks
    assert told_value(found) == "0.5 (0.4 to 0.6)"


def test_the_tasks_that_decide_are_right_near_one(tmp_path: Path) -> None:
    folder = evaluated(tmp_path, num_scored_tasks=5, accepted_at_1=estimate(1.0, 0.5655, 1.0))
    (found,) = decide(stage(at_least=0.9), folder)
    assert (found.verdict, found.tasks_to_decide) == ("INCONCLUSIVE", 35)


def test_a_number_is_named_by_its_path(tmp_path: Path) -> None:
    folder = evaluated(tmp_path, code={"execution_success": estimate(0.9, 0.8, 0.95)})
    (found,) = decide(stage(metric="code.execution_success", at_least=0.7), folder)
    assert found.verdict == "PASS"


def test_nothing_scored_decides_nothing(tmp_path: Path) -> None:
    (found,) = decide(stage(at_least=0.1), evaluated(tmp_path, accepted_at_1=None))
    assert (found.verdict, told_value(found)) == ("INCONCLUSIVE", "nothing was scored")


@pytest.mark.parametrize("metric", ["acepted_at_1", "accepted_at_1.value.x", "code"])
def test_a_number_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, metric: str
) -> None:
    folder = evaluated(tmp_path, accepted_at_1=estimate(0.5, 0.4, 0.6), code={"num": 1})
    with pytest.raises(DatasetError, match=r"have no") as refused:
        decide(stage(metric=metric, at_least=0.1), folder)
    assert refused.value.hint == "known: num_scored_tasks, accepted_at_1, code.num"


def test_a_count_is_exact(tmp_path: Path) -> None:
    folder = evaluated(tmp_path)
    (found,) = decide(stage(metric="num_scored_tasks", at_least=100), folder)
    assert (found.verdict, told_value(found)) == ("PASS", "100")
    (found,) = decide(stage(metric="num_scored_tasks", at_least=101), folder)
    assert (found.verdict, found.tasks_to_decide) == ("FAIL", None)


@pytest.mark.parametrize(
    ("value", "width", "verdict"),
    [
        (0.30, 0.05, "FAIL"),
        (0.38, 0.05, "INCONCLUSIVE"),
        (0.50, 0.05, "INCONCLUSIVE"),
        (0.62, 0.05, "INCONCLUSIVE"),
        (0.70, 0.05, "PASS"),
    ],
)
def test_between_two_bounds_a_gate_is_open_and_says_what_to_do(
    tmp_path: Path, value: float, width: float, verdict: str
) -> None:
    """Under 40% it fails, over 60% it passes."""
    folder = evaluated(tmp_path, accepted_at_1=estimate(value, value - width, value + width))
    bounds = {"pass_at_least": 0.6, "fail_below": 0.4}
    acts = {"action": "check the data", "action_between": "make more data"}
    (found,) = decide(stage(**bounds, **acts), folder)
    assert (found.verdict, found.bound) == (verdict, "at least 0.6, fails below 0.4")
    told = {"FAIL": "check the data", "INCONCLUSIVE": "make more data", "PASS": ""}
    assert found.action == told[verdict]
    # More tasks bring no value in the gap out of it.
    assert (found.tasks_to_decide is not None) == (value in (0.38, 0.62))


def test_a_gap_below_an_upper_bound_is_the_mirror_image(tmp_path: Path) -> None:
    folder = evaluated(tmp_path, truncated=estimate(0.2, 0.15, 0.25))
    for bounds, verdict in (
        ((0.3, 0.4), "PASS"),
        ((0.1, 0.3), "INCONCLUSIVE"),
        ((0.05, 0.1), "FAIL"),
    ):
        gate = {"metric": "truncated", "pass_at_most": bounds[0], "fail_above": bounds[1]}
        (found,) = decide(stage(**gate), folder)
        assert found.verdict == verdict


def test_any_command_that_writes_metrics_has_gates(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path, "c", "1")
    folder.output.mkdir(parents=True)
    content = {"overall": {"num_pairs": 40, "by_type": {"refusal": {"share": 0.2}}}}
    (folder.output / "metrics.json").write_text(json.dumps(content))
    gates = [
        {"metric": "num_pairs", "at_least": 10},
        {"metric": "by_type.refusal.share", "at_most": 0.1},
    ]
    made = CommandStage.model_validate({"kind": "command", "words": ["data"], "gates": gates})
    assert [one.verdict for one in decide(made, folder)] == ["PASS", "FAIL"]


def test_an_evaluation_that_scored_nothing_did_nothing(tmp_path: Path) -> None:
    sets = {"held": "held.jsonl"}
    measured = EvaluateStage.model_validate({"kind": "evaluate", "policy": "x", "sets": sets})
    (found,) = decide(measured, evaluated(tmp_path, num_scored_tasks=0))
    assert (found.verdict, found.follows, found.is_built_in) == ("FAIL", "stop", True)
    assert (
        decide(stage(at_least=0.0), evaluated(tmp_path / "b", accepted_at_1=None))[0].value is None
    )
