"""Stages that did nothing are found, in files as the commands write them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay_trainer.pipelines.gating.changes import change_checks, num_rows
from assay_trainer.pipelines.gating.gates import decide
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import (
    CompareStage,
    PairsStage,
    RejectionStage,
    SFTDataStage,
    TrainStage,
)
from tests.support.pipelines import write_comparison_of
from tests.support.policies import make_policy_folder

TRAIN = TrainStage.model_validate({"kind": "train", "run": "run.yaml"})


def folder(tmp_path: Path) -> StageFolder:
    found = StageFolder(tmp_path, "stage", "1")
    found.output.mkdir(parents=True)
    return found


def test_a_run_whose_weights_equal_its_start_did_nothing(tmp_path: Path) -> None:
    own = folder(tmp_path)
    models = own.output / "models"
    make_policy_folder(models / "initial")
    shutil.copytree(models / "initial", models / "sft")
    (found,) = change_checks(TRAIN, own)
    assert (found.metric, found.value, found.verdict) == ("weights moved by sft", 0.0, "FAIL")
    assert found.follows == "stop"
    assert "allow_no_change" in found.action
    allowed = TRAIN.model_copy(update={"allow_no_change": True})
    assert decide(allowed, own) == []


def test_a_later_stage_that_did_nothing_is_found_behind_one_that_did(tmp_path: Path) -> None:
    own = folder(tmp_path)
    models = own.output / "models"
    make_policy_folder(models / "initial")
    make_policy_folder(models / "sft", seed=1)
    shutil.copytree(models / "sft", models / "grpo")
    found = {one.metric: one.verdict for one in change_checks(TRAIN, own)}
    assert found == {"weights moved by sft": "PASS", "weights moved by grpo": "FAIL"}
    gate = {"metric": "weights.moved_share.all", "at_least": 0.5}
    gated = TrainStage.model_validate({"kind": "train", "run": "run.yaml", "gates": [gate]})
    assert decide(gated, own)[-1].verdict == "PASS"


@pytest.mark.parametrize("kind", ["sft_data", "pairs", "rejection"])
@pytest.mark.parametrize("number", [0, 3])
def test_data_without_rows_is_nothing(tmp_path: Path, kind: str, number: int) -> None:
    stages: dict[str, Any] = {
        "sft_data": SFTDataStage.model_validate({"kind": "sft_data", "file": "seeds.yaml"}),
        "pairs": PairsStage.model_validate({"kind": "pairs", "evaluations": ["e"]}),
        "rejection": RejectionStage.model_validate({"kind": "rejection", "evaluations": ["e"]}),
    }
    own = folder(tmp_path)
    (own.output / "preferences.jsonl").write_text('{"prompt": "a"}\n' * number)
    (own.output / "refused.jsonl").write_text('{"prompt": "b"}\n')
    assert num_rows(own.output) == number
    (found,) = change_checks(stages[kind], own)
    assert found.verdict == ("PASS" if number else "FAIL")
    (own.output / "manifest.json").write_text(json.dumps({"count": 7}))
    assert num_rows(own.output) == 7


def test_a_comparison_of_a_policy_with_itself_is_found(tmp_path: Path) -> None:
    stage = CompareStage.model_validate({"kind": "compare", "evaluations": ["a", "b"]})
    for number, (digests, verdict) in enumerate(((("1", "2"), "PASS"), (("1", "1"), "FAIL"))):
        own = folder(tmp_path / str(number))
        write_comparison_of(own.output, tmp_path / str(number), {"a": 60, "b": 40}, digests)
        (found,) = change_checks(stage, own)
        assert (found.metric, found.verdict) == ("b has other weights", verdict)
