"""A new run of a command: its file is read, its start is checked, then it gets a folder."""

from collections.abc import Sequence
from pathlib import Path

from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.config import RunConfig
from assay_trainer.curriculum.winner import load_run
from assay_trainer.service.record import create_run, create_stamped_run


def begin_run(
    file: Path,
    overrides: tuple[str, ...],
    folder: Path | None,
    settings: ServiceSettings,
    gpus: Sequence[int],
) -> tuple[RunFolder, RunConfig]:
    """Return a new run in `folder`, else in a folder named by the second below the settings' runs.

    Raises:
        AssayError: the run file is not valid, or the start is refused; there is no folder then.
    """
    config = load_run(file, overrides)
    # Slow to import: a file that is not valid is refused before.
    from assay_trainer.pipeline.before_start import check_place, check_start

    check_start(config, settings, gpus)
    check_place(folder or settings.runs / config.name, settings)
    if folder is not None:
        return create_run(folder, config), config
    return create_stamped_run(settings.runs, config), config
