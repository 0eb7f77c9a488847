"""The curricula of arms: stages without tasks, or with too few steps, are refused at once."""

from collections.abc import Mapping

from assay_shared.errors import ConfigError, RoleError
from assay_shared.types import Task
from assay_trainer.config import RunConfig
from assay_trainer.curriculum.stage_rules import check_stages
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.sources import Gsm8kSource, HumanEvalSource, Source
from assay_trainer.table_source import HubSource


def check_curricula(configs: Mapping[str, RunConfig]) -> None:
    """Check the stages of each arm with a curriculum, as its run would.

    Nothing is said of a set not here yet: a missing file, or one of a hub.

    Raises:
        ConfigError: see `check_stages`; names the arm.
        RoleError: see `check_stages`; names the arm.
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
            check_stages(config, training, held_out)
        except (ConfigError, RoleError) as error:
            field = f"arms.{name}: {error.field}"
            raise type(error)(error.message, field=field, hint=error.hint) from None


def _tasks(source: Source, purpose: DatasetPurpose) -> list[Task] | None:
    """Return the usable tasks of a source; None if it cannot be read yet."""
    path = getattr(source, "path", None)
    is_elsewhere = isinstance(source, HumanEvalSource | Gsm8kSource) and path is None
    if isinstance(source, HubSource) or is_elsewhere or (path is not None and not path.exists()):
        return None
    found = open_dataset(source, purpose, None, takes_half_characters=True)
    return [task for task in found.tasks if task.id not in found.unusable]
