"""The numbers of stages, from files as the commands write them."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay_trainer.pipelines.gating.gates import decide
from assay_trainer.pipelines.stage_folder import GateResult, StageFolder
from assay_trainer.pipelines.stage_kinds import (
    AblateStage,
    AnyStage,
    CommandStage,
    CompareStage,
    HandoffStage,
    SFTDataStage,
    TrainStage,
    VerifyStage,
)
from tests.support.pipelines import write_comparison_of


def folder(tmp_path: Path) -> StageFolder:
    found = StageFolder(tmp_path, "stage", "1")
    found.output.mkdir(parents=True)
    return found


def gated(
    kind: type[AnyStage], fields: dict[str, Any], own: StageFolder, **gate: Any
) -> GateResult:
    stage = kind.model_validate(fields | {"gates": [gate], "allow_no_change": True})
    (found,) = decide(stage, own)
    return found


@pytest.mark.parametrize(
    ("right", "verdict"), [((60, 80), "PASS"), ((60, 30), "FAIL"), ((60, 58), "INCONCLUSIVE")]
)
@pytest.mark.parametrize("metric", ["held.pass@1", "held.accepted_at_1", "after.held.pass_at_1"])
def test_a_policy_that_got_worse_fails_the_gate_of_its_comparison(
    tmp_path: Path, right: tuple[int, int], verdict: str, metric: str
) -> None:
    own = folder(tmp_path)
    write_comparison_of(own.output, tmp_path, {"before": right[0], "after": right[1]}, ("1", "2"))
    fields = {"kind": "compare", "evaluations": ["before", "after"]}
    gate = {"metric": f"{metric}.difference", "at_least": 0.0}
    found = gated(CompareStage, fields, own, **gate)
    assert found.verdict == verdict
    assert found.value == pytest.approx((right[1] - right[0]) / 100)
    finding = gated(CompareStage, fields, own, metric=f"{metric}.finding", at_least=1)
    assert finding.verdict == ("PASS" if verdict == "PASS" else "FAIL")


REPORT = {
    "sft": {
        **{"num_steps": 60, "first_loss": 2.0, "last_loss": 0.5, "max_grad_norm": 3.0},
        "validation_losses": {"20": 1.5, "40": 0.75, "60": 1.0},
    },
    "dpo": {
        **{"num_steps": 10, "first_loss": 0.69, "last_loss": 0.4, "max_grad_norm": 1.0},
        "held_out": {
            "after": {
                "num_pairs": 50,
                "margin": 0.4,
                "win_rate": {"value": 0.8, "low": 0.67, "high": 0.89},
                "logprob_win_rate": {"value": 0.5, "low": 0.37, "high": 0.63},
            }
        },
    },
    "evaluations": {
        name: {"num_tasks": 40, "pass_at": {"1": {"value": 0.4, "low": 0.3, "high": 0.5}}}
        for name in ("before", "after")
    },
    "differences": {"pass_at_1": {"value": 0.1, "low": 0.05, "high": 0.15}},
}


@pytest.mark.parametrize(
    ("gate", "verdict"),
    [
        ({"metric": "dpo.after.win_rate", "at_least": 0.6}, "PASS"),
        ({"metric": "dpo.after.win_rate", "at_least": 0.7}, "INCONCLUSIVE"),
        ({"metric": "dpo.after.margin", "at_least": 0.5}, "FAIL"),
        ({"metric": "dpo.loss.change", "at_most": 0.0}, "PASS"),
        ({"metric": "sft.validation_loss.change", "at_most": 0.0}, "PASS"),
        ({"metric": "sft.validation_loss.over_least", "at_most": 0.1}, "FAIL"),
        ({"metric": "evaluations.after.pass_at.1", "at_least": 0.2}, "PASS"),
        ({"metric": "gain", "at_least": 0.0}, "PASS"),
    ],
)
def test_a_run_has_numbers_of_each_of_its_stages(
    tmp_path: Path, gate: dict[str, Any], verdict: str
) -> None:
    own = folder(tmp_path)
    (own.output / "report.json").write_text(json.dumps(REPORT))
    found = gated(TrainStage, {"kind": "train", "run": "a.yaml"}, own, **gate)
    assert found.verdict == verdict
    if verdict == "INCONCLUSIVE":
        assert found.tasks_to_decide is not None
        assert found.tasks_to_decide > 50


@pytest.mark.parametrize(("verdict", "expected"), [("CLEAN", "PASS"), ("NOT_CLEAN", "FAIL")])
def test_a_base_model_with_a_template_fails_where_none_may_be(
    tmp_path: Path, verdict: str, expected: str
) -> None:
    """`assay verify` ends with 1 too; the gate is for those who let it continue."""
    own = folder(tmp_path)
    count = {"num": 4, "num_asked": 40, "share": 0.1, "low": 0.04, "high": 0.23}
    form = dict.fromkeys(("does_as_asked", "ended", "has_control_token"), count)
    content = {
        "channel": {"verdict": verdict, "num_prompts": 9, "num_unclean": 2},
        "behaviour": [{"kind": "numbered list", "raw": form, "template": None}],
    }
    (own.output / "verification.json").write_text(json.dumps(content))
    fields = {"kind": "verify", "policy": "x"}
    assert gated(VerifyStage, fields, own, metric="clean", at_least=1).verdict == expected
    gate = {"metric": "raw.numbered_list.does_as_asked", "at_most": 0.3}
    assert gated(VerifyStage, fields, own, **gate).verdict == "PASS"


def test_arms_of_an_ablation_that_are_compared_are_counted(tmp_path: Path) -> None:
    own = folder(tmp_path)
    arms = [{"state": one} for one in ("COMPARED", "UNKNOWN", "NO EFFECT", "FAILED")]
    report = {"controls_work": True, "winner": None, "arms": arms, "goals": []}
    (own.output / "report.json").write_text(json.dumps(report))
    stage = {"kind": "ablate", "file": "a.yaml"}
    assert gated(AblateStage, stage, own, metric="num_compared", at_least=2).verdict == "PASS"
    assert gated(AblateStage, stage, own, metric="num_compared", at_least=3).verdict == "FAIL"


def test_a_hand_off_has_its_checks_as_numbers(tmp_path: Path) -> None:
    own = folder(tmp_path)
    checks = [
        {"name": "loads in transformers", "verdict": "PASS"},
        {"name": "serves in vLLM", "verdict": "SKIPPED"},
        {"name": "stopping", "verdict": "FAIL"},
    ]
    (own.output / "handoff.json").write_text(json.dumps({"num_parameters": 9, "checks": checks}))
    fields = {"kind": "handoff", "policy": "x"}
    for metric, verdict in (("loads_in_transformers", "PASS"), ("stopping", "FAIL")):
        found = gated(HandoffStage, fields, own, metric=f"checks.{metric}", at_least=1)
        assert found.verdict == verdict


@pytest.mark.parametrize("has_metrics", [True, False])
def test_rows_are_counted_with_and_without_further_numbers(
    tmp_path: Path, has_metrics: bool
) -> None:
    own = folder(tmp_path)
    (own.output / "manifest.json").write_text('{"count": 4000}')
    if has_metrics:
        (own.output / "metrics.json").write_text('{"overall": {"kept": 0.5}}')
    fields = {"kind": "sft_data", "file": "a.yaml"}
    gate = {"metric": "num_rows", "pass_at_least": 5000, "fail_below": 1000}
    assert gated(SFTDataStage, fields, own, **gate).verdict == "INCONCLUSIVE"
    if has_metrics:
        assert gated(SFTDataStage, fields, own, metric="kept", at_least=0.5).verdict == "PASS"


def test_a_study_and_episodes_have_their_means(tmp_path: Path) -> None:
    mean = {"mean": 0.7, "low": 0.6, "high": 0.8, "n": 50}
    own = folder(tmp_path)
    (own.output / "study.json").write_text(
        json.dumps({"goals": [{"found": mean}, {"found": None}]})
    )
    fields = {"kind": "command", "words": ["or-debug"]}
    assert gated(CommandStage, fields, own, metric="goals.1", at_least=0.5).verdict == "PASS"
    assert gated(CommandStage, fields, own, metric="goals.2", at_least=0.5).value is None
    other = folder(tmp_path / "other")
    (other.output / "episodes.jsonl").write_text("")
    cells = [{"policy": "me", "cell": "D/hard", "metrics": {"faithful": mean}}]
    gradient = [{"difficulty": "hard", "found": mean}]
    content = {"evaluation": {"policy": "me", "cells": cells, "gradient": gradient}}
    (other.output / "evaluation.json").write_text(json.dumps(content))
    gate = {"metric": "policy.hard.rr@5", "pass_at_least": 0.3, "fail_below": 0.3}
    assert gated(CommandStage, fields, other, **gate).verdict == "PASS"
    gate["metric"] = "policy.D_hard.faithful"
    assert gated(CommandStage, fields, other, **gate).verdict == "PASS"
