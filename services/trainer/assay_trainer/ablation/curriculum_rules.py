"""The curricula of arms: stages without tasks, or with too few steps, are refused at once."""

from collections.abc import Mapping

from assay_shared.errors import ConfigError, RoleError
from assay_shared.types import Task
from assay_trainer.config import RunConfig
from assay_trainer.curriculum.selection import measured_stages, stage_tasks
from assay_trainer.curriculum.staged_order import check_steps
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.sources import Gsm8kSource, HumanEvalSource, Source
from assay_trainer.table_source import HubSource


def check_curricula(configs: Mapping[str, RunConfig]) -> None:
    """Check the stages of each arm with a curriculum, as its run would.

    Nothing is said of a set not here yet: a missing file, or one of a hub.

    Raises:
        ConfigError: no task has a stage's tags, or GRPO ends before the stages do; names the arm.
        RoleError: a stage would end by rows for tests alone; names the arm.
        DatasetError: a row cannot be used.
    """
    staged = {name: one for name, one in configs.items() if one.curriculum is not None}
    if not staged:
        return
    data = next(iter(staged.values())).data  # arms differ in grpo and curriculum alone
    training = _tasks(data.train, DatasetPurpose.TRAIN)
    held_out = _tasks(data.held_out, DatasetPurpose.EVALUATE)
    for name, config in staged.items():
        try:
            _check(config, training, held_out)
        except (ConfigError, RoleError) as error:
            field = f"arms.{name}: {error.field}"
            raise type(error)(error.message, field=field, hint=error.hint) from None


def _check(config: RunConfig, training: list[Task] | None, held_out: list[Task] | None) -> None:
    curriculum, grpo = config.curriculum, config.grpo
    assert curriculum is not None
    assert grpo is not None
    if training is not None:
        stages = stage_tasks(curriculum, training, "training")
        check_steps(curriculum, stages, grpo.steps, grpo.groups_per_step)
    if held_out is not None:
        measured_stages(curriculum, held_out)


def _tasks(source: Source, purpose: DatasetPurpose) -> list[Task] | None:
    """Return the usable tasks of a source; None if it cannot be read yet."""
    path = getattr(source, "path", None)
    is_elsewhere = isinstance(source, HumanEvalSource | Gsm8kSource) and path is None
    if isinstance(source, HubSource) or is_elsewhere or (path is not None and not path.exists()):
        return None
    found = open_dataset(source, purpose, None, takes_half_characters=True)
    return [task for task in found.tasks if task.id not in found.unusable]
