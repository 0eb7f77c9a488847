"""Checks of the stages that are to run, before the first of them begins."""

from collections.abc import Iterable
from pathlib import Path

from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_trainer.pipelines.checks.run_files import check_run_file
from assay_trainer.pipelines.checks.stage_policies import check_policy, policy_of
from assay_trainer.pipelines.checks.stage_words import check_words
from assay_trainer.pipelines.runner import Pipeline, PlannedStage
from assay_trainer.pipelines.stage_kinds import AblateStage, CommandStage, TrainStage


def check_stages(pipeline: Pipeline, names: Iterable[str]) -> list[str]:
    """Check the stages of these names that are not done; return notes for a person.

    Raises:
        AssayError: a stage or its run file names a command, an option, a policy or data that there
            is not.
    """
    planned = [pipeline.stages[name] for name in names]
    notes = [_check_place(pipeline.folder, planned)]
    commands = [one for one in pipeline.config.stages.values() if isinstance(one, CommandStage)]
    # A command may make the folder of a policy that is not there yet.
    made = {word for one in commands for word in one.words}
    for one in planned:
        if one.record is None:
            check_words(one.stage, one.folder, pipeline.places, pipeline.file)
            if policy_of(one.stage) not in made:
                notes.append(check_policy(one.stage, one.folder, pipeline.places))
            notes += check_run_file(one, pipeline)
    return [note for note in notes if note]


def _check_place(folder: Path, planned: Iterable[PlannedStage]) -> str:
    """Return a note if weights will be published from where inference may not read them."""
    settings = read_settings(ServiceSettings)
    publishes = any(
        one.record is None and isinstance(one.stage, TrainStage | AblateStage) for one in planned
    )
    is_inside = folder.resolve().is_relative_to(settings.runs.resolve())
    if not publishes or is_inside or settings.weight_transfer != "folder":
        return ""
    return (
        f"{folder} is outside of ASSAY_RUNS ({settings.runs}): inference loads weights from there "
        "if its ASSAY_INFERENCE_WEIGHT_ROOTS names that folder"
    )
