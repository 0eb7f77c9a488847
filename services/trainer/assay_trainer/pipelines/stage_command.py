"""The command line of a stage, and the policy that a stage leaves."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay_shared.errors import InvalidInput, NotFound
from assay_shared.runs.run_folder import RunFolder, write_json
from assay_trainer.evaluate.policy.places import STAGES
from assay_trainer.pipelines.pipeline_config import (
    AblateStage,
    AnyStage,
    CommandStage,
    CompareStage,
    EvaluateStage,
    HandoffStage,
    TrainStage,
    VerifyStage,
)
from assay_trainer.pipelines.stage_folder import StageFolder

_STAGE = "stage:"


@dataclass(frozen=True)
class StagePlaces:
    """Where a stage finds what it names: files from the pipeline's folder, and other stages."""

    files: Path
    stages: Mapping[str, StageFolder]

    def file(self, given: str | Path) -> str:
        """Return a path from the pipeline file's folder; a text that names nothing there as is."""
        beside = self.files / given
        return str(beside.resolve()) if beside.exists() else str(given)

    def filled(self, word: str, own: StageFolder) -> str:
        """Return a word with the folders in the place of {folder} and {stage:NAME}."""
        word = word.replace("{folder}", str(own.output))
        for name, stage in self.stages.items():
            word = word.replace(f"{{{_STAGE}{name}}}", str(stage.output))
        return word

    def policy(self, given: str) -> str:
        """Return what `assay evaluate` and `assay handoff` take as a policy."""
        if given.startswith(_STAGE):
            return str(self.stages[given.removeprefix(_STAGE)].output)
        return self.file(given)


def input_files(stage: AnyStage, places: StagePlaces) -> list[Path]:
    """Return the files and folders of the pipeline's author that decide a stage's result."""
    named: list[str | Path] = []
    if isinstance(stage, TrainStage):
        named = [stage.run]
    elif isinstance(stage, AblateStage):
        named = [stage.file]
    elif isinstance(stage, CompareStage) and stage.expect is not None:
        named = [stage.expect]
    elif isinstance(stage, VerifyStage) and stage.prompts is not None:
        named = [stage.prompts]
    elif isinstance(stage, CommandStage):
        named = list(stage.inputs)
    elif isinstance(stage, EvaluateStage):
        named = [one for one in stage.sets.values() if (places.files / one).exists()]
    found = [places.files / one for one in named]
    if missing := [one for one in found if not one.exists()]:
        raise NotFound(
            f"there is no {missing[0]}", hint="paths are from the pipeline file's folder"
        )
    return found


def prepare(stage: AnyStage, own: StageFolder, places: StagePlaces) -> list[str]:
    """Return the words after `assay` that do a stage or resume it.

    What cannot be resumed is deleted from the stage's own folder.
    """
    own.path.mkdir(parents=True, exist_ok=True)
    if isinstance(stage, TrainStage):
        return _train(stage, own, places)
    if isinstance(stage, EvaluateStage):
        return _evaluate(stage, own, places)
    if isinstance(stage, AblateStage):
        return _ablate(stage, own, places)
    if isinstance(stage, VerifyStage):
        return _verify(stage, own, places)
    shutil.rmtree(own.output, ignore_errors=True)
    if isinstance(stage, CompareStage):
        arms = [word for name in stage.evaluations for word in ("--arm", _arm(name, places))]
        expect = [] if stage.expect is None else ["--expect", places.file(stage.expect)]
        return ["compare", *arms, *expect, "--output", str(own.output)]
    if isinstance(stage, HandoffStage):
        options = ["--dtype", stage.dtype, "--min-stopping", str(stage.min_stopping)]
        return ["handoff", places.policy(stage.policy), "--output", str(own.output), *options]
    return [places.filled(word, own) for word in stage.words]


def is_finished(stage: AnyStage, own: StageFolder) -> bool:
    """Return True if the command has ended well, although nobody wrote it down."""
    run = RunFolder(own.output)
    if not isinstance(stage, TrainStage) or not run.config.exists():
        return False
    return run.read_status().state == "finished"


def _train(stage: TrainStage, own: StageFolder, places: StagePlaces) -> list[str]:
    if RunFolder(own.output).config.exists():
        return ["train", "--resume", str(own.output)]
    shutil.rmtree(own.output, ignore_errors=True)
    changes = _changes(stage.overrides)
    if stage.policy is not None:
        changes += _policy_of_run(stage.policy, places)
    return ["train", places.file(stage.run), *changes, "--folder", str(own.output)]


def _ablate(stage: AblateStage, own: StageFolder, places: StagePlaces) -> list[str]:
    if (own.output / "ablation.json").exists():
        return ["ablate", "--resume", str(own.output)]
    shutil.rmtree(own.output, ignore_errors=True)
    file, folder = places.file(stage.file), str(own.output)
    return ["ablate", file, *_changes(stage.overrides), "--folder", folder]


def _changes(overrides: Mapping[str, JsonValue]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in overrides.items()]


def _verify(stage: VerifyStage, own: StageFolder, places: StagePlaces) -> list[str]:
    words = ["verify", places.policy(stage.policy), "--output", str(own.output)]
    words += ["--per-kind", str(stage.per_kind), "--max-tokens", str(stage.max_tokens)]
    return words if stage.prompts is None else [*words, "--prompts", places.file(stage.prompts)]


def _policy_of_run(given: str, places: StagePlaces) -> list[str]:
    if given.startswith(_STAGE):
        folder = last_model(places.stages[given.removeprefix(_STAGE)].output)
        return ["policy.new=null", "policy.hub=null", f"policy.folder={folder}"]
    if (places.files / given).exists() or Path(given).is_absolute():
        return ["policy.new=null", "policy.hub=null", f"policy.folder={places.file(given)}"]
    return ["policy.new=null", "policy.folder=null", f"policy.hub={given}"]


def _evaluate(stage: EvaluateStage, own: StageFolder, places: StagePlaces) -> list[str]:
    protocol = own.path / "protocol.yaml"
    write_json(protocol, dict(stage.protocol))  # JSON is YAML
    sets = [f"{name}={places.file(places.filled(one, own))}" for name, one in stage.sets.items()]
    words = ["evaluate", places.policy(stage.policy)]
    for one in sets:
        words += ["--sets", one]
    words += ["--output", str(own.output), "--protocol-file", str(protocol)]
    return words if stage.limit is None else [*words, "--limit", str(stage.limit)]


def _arm(name: str, places: StagePlaces) -> str:
    return f"{name}={places.stages[name].output}"


def last_model(output: Path) -> Path:
    """Return the folder of the last model of a stage: of a run, or the handed over folder.

    Raises:
        InvalidInput: the stage leaves no policy.
    """
    for name in reversed(STAGES):
        model = output / "models" / name
        if model.is_dir():
            return model
    if (output / "config.json").is_file() and not (output / "models").exists():
        return output
    raise InvalidInput(f"{output} has no policy", hint="name a stage of kind train or handoff")
