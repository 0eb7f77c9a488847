"""The register of a pipeline: which data, models and decisions its results stand on."""

import json
from pathlib import Path
from typing import Any

from assay_shared.errors import AssayError
from assay_shared.settings.run_file import provenance
from assay_shared.weights.checkpoint import digest
from assay_trainer.data.governance.manifest import MANIFEST
from assay_trainer.pipelines.levels.determinism import undetermined
from assay_trainer.pipelines.levels.outputs import outputs_of
from assay_trainer.pipelines.reporting.tables import decided_levels
from assay_trainer.pipelines.runner import Pipeline, PlannedStage
from assay_trainer.pipelines.stage_command import last_model
from assay_trainer.pipelines.stage_kinds import HandoffStage, MeasuringStage, TrainStage


def register_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return the entry: digests of data and models by stage, decisions, and what was overruled."""
    done = [one for one in pipeline.stages.values() if one.record is not None]
    models = {one.name: _model(one) for one in done}
    gates = [(one.name, gate) for one in done if one.record for gate in one.record.gates]
    decisions = [{"stage": name} | gate.model_dump(mode="json") for name, gate in gates]
    levels = [one.model_dump(mode="json") for one in decided_levels(pipeline)]
    outputs = {one.name: outputs_of(one.folder) for one in done}
    differing = undetermined(pipeline.config, outputs)
    entry: dict[str, Any] = {
        "name": pipeline.config.name,
        "file": pipeline.file.name,
        "stages": {
            one.name: _stage(one)
            | {"outputs": outputs[one.name], "not_deterministic": differing[one.name]}
            for one in done
        },
        "data": {one.name: found for one in done if (found := _data(one))},
        "models": {name: one for name, one in models.items() if one is not None},
        "decisions": decisions + levels,
        "overruled": [one.model_dump(mode="json") for one in pipeline.overruled_now()],
    }
    return entry | provenance()


def _stage(one: PlannedStage) -> dict[str, Any]:
    assert one.record is not None
    found = {"kind": one.stage.kind, "inputs": one.folder.inputs, "state": one.record.state}
    return found | {"finished": one.record.finished}


def _data(one: PlannedStage) -> dict[str, Any]:
    """Return the digest of the rows of a stage that made data, or of the sets it measured."""
    if isinstance(one.stage, MeasuringStage):
        record = _json(one.folder.output / "evaluation.json")
        return {found["name"]: found["digest"] for found in record.get("sets", [])}
    manifest = _json(one.folder.output / MANIFEST)
    known = ("digest", "count", "source", "licence", "revision")
    return {key: manifest[key] for key in known if key in manifest}


def _model(one: PlannedStage) -> str | None:
    """Return the digest of a stage's last model; None of a stage that leaves none."""
    if not isinstance(one.stage, TrainStage | HandoffStage):
        return None
    try:
        return digest(last_model(one.folder.output))
    except AssayError:
        return None


def _json(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_bytes()) if file.is_file() else {}
    return found
