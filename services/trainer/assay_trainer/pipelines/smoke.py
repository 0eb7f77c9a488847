"""A short run before a long one: its checkpoint is loaded by others, and what fails fails early."""

import shutil
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import RunFolder, write_json
from assay_shared.settings.run_file import read_values
from assay_trainer.pipelines.stage_command import StagePlaces, train_changes
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import AnyStage, TrainStage

_STAGES = ("sft", "dpo", "grpo")
#: Held-out tasks of generated data, and tokens of an answer.
_TASKS, _TOKENS = 4, 8


def smoke_commands(stage: AnyStage, own: StageFolder, places: StagePlaces) -> list[list[str]]:
    """Return the words after `assay` of a stage's short run and of its loading; none once done."""
    if not isinstance(stage, TrainStage) or stage.smoke_steps is None:
        return []
    if _passed(own).exists() or RunFolder(own.output).config.exists():
        return []
    folder = own.path / "smoke"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run, handed = str(folder / "run"), str(folder / "handed_over")
    changes = [*train_changes(stage, places), *_short(stage, places, stage.smoke_steps)]
    loading = ["--output", handed, "--min-stopping", "0", "--max-tokens", str(_TOKENS)]
    return [
        ["train", places.file(stage.run), *changes, "--folder", run],
        ["handoff", run, *loading],
    ]


def smoke_passed(stage: AnyStage, own: StageFolder) -> None:
    """Write down that the short run has passed, and delete it."""
    if isinstance(stage, TrainStage) and stage.smoke_steps is not None:
        write_json(_passed(own), {"steps": stage.smoke_steps})
        shutil.rmtree(own.path / "smoke", ignore_errors=True)


def _passed(own: StageFolder) -> Path:
    return own.path / "smoke.json"


def _short(stage: TrainStage, places: StagePlaces, steps: int) -> list[str]:
    """Return the overrides that make a run short: each stage that it has, and its evaluation."""
    values = read_values(Path(places.file(stage.run)), tuple(train_changes(stage, places)))
    words = ["curriculum=null", "evaluation.tiers=[]", "evaluation.best=null"]
    words += ["evaluation.samples_per_task=1", "evaluation.k=[1]"]
    words += [f"evaluation.max_tokens={_TOKENS}", "data.validation=null"]
    for name in _STAGES:
        if values.get(name) is not None:
            words += [f"{name}.steps={steps}", f"{name}.checkpoint_every={steps}"]
            words += [f"{name}.warmup_steps=1"]
            words += [] if name == "grpo" else [f"{name}.epochs=null"]
    if values.get("grpo") is not None:
        words += ["grpo.signal_check=null"]
    if _is_generated(values):
        words += [f"data.held_out.num_tasks={_TASKS}"]
    return words


def _is_generated(values: dict[str, Any]) -> bool:
    held_out = (values.get("data") or {}).get("held_out") or {}
    return isinstance(held_out, dict) and held_out.get("kind") == "generated"
