"""`assay leaks`: search training data for held-out tasks."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from assay_shared.types import Task
    from assay_trainer.checks.leaks.check import Leaks
    from assay_trainer.config import LeaksConfig, Source
    from assay_trainer.data.dataset import DatasetPurpose

_SOURCE = "humaneval, gsm8k, gsm8k:train, a JSONL file of tasks, or an imported folder"
_JACCARD = 0.7


def leaks(
    file: Path | None = typer.Argument(None, help="Run file (YAML): its two sets."),
    train: str | None = typer.Option(None, help=f"In place of a run file: {_SOURCE}."),
    held_out: str | None = typer.Option(None, help="Held-out tasks, as for --train."),
    output: Path | None = typer.Option(None, help="Write counts, samples and controls as JSON."),
    max_share: float | None = typer.Option(
        None, help="Exit with 1 if more of the held-out tasks have leaked.", show_default="0"
    ),
    ngram_words: int | None = typer.Option(None, help="Words of an n-gram.", show_default="13"),
    min_coverage: float | None = typer.Option(
        None, help="Share of a prompt's n-grams in one training task.", show_default="0.8"
    ),
    boilerplate_share: float | None = typer.Option(
        None, help="An n-gram in more of the tasks does not count.", show_default="0.01"
    ),
    jaccard: float | None = typer.Option(
        None, help="Similarity of near duplicates.", show_default=str(_JACCARD)
    ),
    num_permutations: int | None = typer.Option(
        None, help="Permutations of MinHash.", show_default="128"
    ),
) -> None:
    """Look for held-out tasks among training tasks: same words, n-grams, near duplicates."""
    from rich.console import Console

    from assay_trainer.checks.leaks.tables import show_leaks

    training, measured, config = _opened(file, train, held_out)
    given = {
        "max_share": max_share,
        "ngram_words": ngram_words,
        "min_coverage": min_coverage,
        "boilerplate_share": boilerplate_share,
        "jaccard": jaccard,
        "num_permutations": num_permutations,
    }
    config = _changed(config, given)
    found = _checked(training, measured, config)
    if output is not None:
        found.write(output)
    console = Console()
    show_leaks(found, console if console.is_terminal else Console(width=160))
    if found.leaked_share > config.max_share:
        raise typer.Exit(1)


def _opened(
    file: Path | None, train: str | None, held_out: str | None
) -> "tuple[list[Task], list[Task], LeaksConfig]":
    """Return training tasks with the demonstrations, held-out tasks, and the settings."""
    from assay_shared.errors import InvalidInput
    from assay_shared.settings.run_file import load_config
    from assay_trainer.config import LeaksConfig, RunConfig
    from assay_trainer.data.dataset import DatasetPurpose, named_source

    if file is not None and train is None and held_out is None:
        data = load_config(RunConfig, file).data
        training = _tasks(data.train, DatasetPurpose.TRAIN)
        if data.demonstrations is not None:
            training += _tasks(data.demonstrations, DatasetPurpose.TRAIN)
        return training, _tasks(data.held_out, DatasetPurpose.EVALUATE), data.leaks or LeaksConfig()
    if file is None and train is not None and held_out is not None:
        training = _tasks(named_source(train), DatasetPurpose.TRAIN)
        return training, _tasks(named_source(held_out), DatasetPurpose.EVALUATE), LeaksConfig()
    raise InvalidInput("give either a run file, or --train and --held-out")


def _tasks(source: "Source", purpose: "DatasetPurpose") -> "list[Task]":
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.data.dataset import open_dataset

    return open_dataset(source, purpose, read_settings(ServiceSettings).data).tasks


def _changed(config: "LeaksConfig", given: dict[str, float | None]) -> "LeaksConfig":
    """Return the configuration with the command line's values, near duplicates always included."""
    from assay_shared.settings.run_file import parse_config
    from assay_trainer.config import LeaksConfig

    values = config.model_dump() | {k: v for k, v in given.items() if v is not None}
    if values["jaccard"] is None:
        values["jaccard"] = _JACCARD
    return parse_config(LeaksConfig, values, source="the command line")


def _checked(training: "list[Task]", held_out: "list[Task]", config: "LeaksConfig") -> "Leaks":
    from rich.progress import Progress

    from assay_trainer.checks.leaks.check import NUM_READINGS, check_leaks

    with Progress(transient=True) as progress:
        bar = progress.add_task("comparing", total=NUM_READINGS * len(training))
        return check_leaks(
            training, held_out, config, on_read=lambda done: progress.advance(bar, done)
        )
