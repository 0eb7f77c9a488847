"""Proof that a stage did something: weights moved, rows were made, answers were scored."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay_trainer.data.governance.manifest import LEFT_OUT, MANIFEST
from assay_trainer.pipelines.gating.moved_weights import moved_shares
from assay_trainer.pipelines.stage_folder import GateResult, StageFolder
from assay_trainer.pipelines.stage_kinds import (
    AnyStage,
    CompareStage,
    MeasuringStage,
    PairsStage,
    RejectionStage,
    SFTDataStage,
    TrainStage,
)

_ALLOW = "or set allow_no_change if this is intended"


def change_checks(stage: AnyStage, folder: StageFolder) -> list[GateResult]:
    """Return a result for each thing that a stage of its kind has to change or to make.

    An idle stage is FAIL and stops the pipeline.
    """
    if isinstance(stage, TrainStage):
        return list(_moved(folder))
    if isinstance(stage, SFTDataStage | PairsStage | RejectionStage):
        hint = "read the rows that were left out, and the samples that were read"
        return [_check("rows made", num_rows(folder.output), hint)]
    if isinstance(stage, MeasuringStage):
        return [_scored(folder, name) for name in stage.sets]
    if isinstance(stage, CompareStage):
        return list(_other_weights(folder))
    return []


def num_rows(output: Path) -> int:
    """Return the number of rows in a folder of data: of its manifest, else of its lines."""
    manifest = output / MANIFEST
    if manifest.exists():
        return int(json.loads(manifest.read_bytes()).get("count", 0))
    files = [one for one in sorted(output.glob("*.jsonl")) if one.name != LEFT_OUT]
    if not files:
        return 0
    with files[0].open("rb") as lines:
        return sum(1 for line in lines if line.strip())


def _moved(folder: StageFolder) -> Iterator[GateResult]:
    shares = moved_shares(folder.output, folder.path / "weights.json")
    hint = "see the learning rate, the data, and whether the weights are in 16 bits"
    if not shares:
        yield _check("weights moved", 0.0, "the run left no trained model")
    for name, share in shares.items():
        if name != "all":
            yield _check(f"weights moved by {name}", share, hint)


def _scored(folder: StageFolder, name: str) -> GateResult:
    file = folder.output / name / "metrics.json"
    overall = json.loads(file.read_bytes())["overall"] if file.exists() else {}
    hint = "read the failures in samples.jsonl"
    return _check("tasks scored", overall.get("num_scored_tasks", 0), hint, name)


def _other_weights(folder: StageFolder) -> Iterator[GateResult]:
    """Yield a result for each arm that was measured as the baseline was: 0 of equal weights."""
    file = folder.output / "comparison_data.json"
    data: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
    evaluations = data.get("evaluations", {})
    baseline = evaluations.get(data.get("baseline"), [])
    for arm in data.get("arms", []):
        facts = [(one["policy_digest"], one["protocol_digest"]) for one in evaluations[arm]]
        known = [one for one in facts if one[0] is not None]
        same = [(one["policy_digest"], one["protocol_digest"]) for one in baseline]
        differs = not known or any(one not in same for one in known)
        yield _check(f"{arm} has other weights", int(differs), "an arm is the baseline itself")


def _check(what: str, found: float, hint: str, name: str = "") -> GateResult:
    passed = found > 0
    return GateResult(
        set=name,
        metric=what,
        bound="above 0",
        value=found,
        is_exact=True,
        is_built_in=True,
        verdict="PASS" if passed else "FAIL",
        follows="continue" if passed else "stop",
        action="" if passed else f"{hint}; {_ALLOW}",
    )
