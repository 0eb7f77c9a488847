"""What the numbers of poor and slow stages say."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay_trainer.pipelines.diagnosis.results import what_results_say
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import EvaluateStage, TrainStage

TRAIN = TrainStage.model_validate({"kind": "train", "run": "run.yaml"})
EVALUATE = EvaluateStage.model_validate({"kind": "evaluate", "policy": "x", "sets": {"a": "a"}})


def sft(first: float, last: float, held_out: dict[str, float]) -> dict[str, Any]:
    return {"sft": {"first_loss": first, "last_loss": last, "validation_losses": held_out}}


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (sft(2.0, 0.5, {"10": 1.0, "20": 0.8, "30": 0.9}), "least at step 20 (0.800)"),
        (sft(2.0, 1.98, {}), "it does not learn"),
        (sft(2.0, 0.5, {"10": 1.0, "20": 0.8, "30": 0.801}), ""),
    ],
)
def test_a_poor_sft_is_told_by_its_losses(
    tmp_path: Path, report: dict[str, Any], word: str
) -> None:
    own = StageFolder(tmp_path, "sft", "1")
    own.output.mkdir(parents=True)
    (own.output / "report.json").write_text(json.dumps(report))
    said = what_results_say(TRAIN, own)
    assert word in " ".join(said)
    assert bool(word) == bool(said)


@pytest.mark.parametrize(
    ("overall", "played_s", "word"),
    [
        (
            {"truncated": {"value": 0.4}, "num_samples": 10},
            1.0,
            "40% of 10 answers were cut off",
        ),
        ({"num_failed": 3}, 1.0, "3 samples have no score"),
        ({"num_without_text": 2}, 1.0, "2 answers are empty"),
        (
            {
                "code": {"num_samples": 84},
                "outcomes": {"syntax_error": 80, "compile_error": 2, "accepted": 2},
            },
            1.0,
            "82 of 84 programs (98%) do not parse",
        ),
        ({}, 100.0, "10 tokens a second"),
        ({}, 1.0, ""),
    ],
)
def test_poor_and_slow_evaluations_are_told_by_their_metrics(
    tmp_path: Path, overall: dict[str, Any], played_s: float, word: str
) -> None:
    own = StageFolder(tmp_path, "e", "1")
    (own.output / "a").mkdir(parents=True)
    content = {"overall": {"costs": {"tokens": {"total": 1000.0}}} | overall, "played_s": played_s}
    (own.output / "a" / "metrics.json").write_text(json.dumps(content))
    said = what_results_say(EVALUATE, own)
    assert [word in one for one in said] == ([True] if word else [])
