"""Verdicts of gates, from the metrics of an evaluation."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import DatasetError
from assay_trainer.pipelines.gates import decide, told_value
from assay_trainer.pipelines.pipeline_config import EvaluateStage


def evaluated(folder: Path, **estimates: Any) -> Path:
    (folder / "held").mkdir(parents=True)
    overall = {"num_scored_tasks": 100} | estimates
    (folder / "held" / "metrics.json").write_text(json.dumps({"overall": overall}))
    return folder


def stage(**gate: Any) -> EvaluateStage:
    return EvaluateStage.model_validate(
        {"kind": "evaluate", "policy": "x", "sets": {"held": "held.jsonl"}, "gates": [gate]}
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
    assert found.tasks_to_decide == 400  # half the width needs four times the tasks
    assert told_value(found) == "0.5 (0.4 to 0.6)"


def test_a_number_is_named_by_its_path(tmp_path: Path) -> None:
    folder = evaluated(tmp_path, code={"execution_success": estimate(0.9, 0.8, 0.95)})
    (found,) = decide(stage(metric="code.execution_success", at_least=0.7), folder)
    assert found.verdict == "PASS"


def test_nothing_scored_decides_nothing(tmp_path: Path) -> None:
    (found,) = decide(stage(at_least=0.1), evaluated(tmp_path, accepted_at_1=None))
    assert (found.verdict, told_value(found)) == ("INCONCLUSIVE", "nothing was scored")


@pytest.mark.parametrize("metric", ["acepted_at_1", "num_scored_tasks", "accepted_at_1.value.x"])
def test_a_number_without_an_interval_is_refused(tmp_path: Path, metric: str) -> None:
    folder = evaluated(tmp_path, accepted_at_1=estimate(0.5, 0.4, 0.6))
    with pytest.raises(DatasetError, match=r"has no"):
        decide(stage(metric=metric, at_least=0.1), folder)
