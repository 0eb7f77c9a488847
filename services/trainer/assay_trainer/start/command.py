"""Make a first run: init. The command imports its needs when it runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from assay_trainer.start.making import InitOptions


def init(
    folder: Path = typer.Argument(Path(), help="Where run.yaml and .env are written."),
    model: str | None = typer.Option(None, help="The policy: a model's folder or name of a hub."),
    data: str | None = typer.Option(None, help="Tasks: a file, or a dataset's name of a hub."),
    held_out: Path | None = typer.Option(
        None, help="A file to measure on; a tenth of the other one without it."
    ),
    rubric: str | None = typer.Option(None, help="The rubric's name; by the answers without it."),
    prompt_column: str | None = typer.Option(None, help="The column of the prompts."),
    answer_column: str | None = typer.Option(None, help="The column of the answers."),
    data_config: str | None = typer.Option(None, help="The configuration of a hub's dataset."),
    split: str = typer.Option("train", help="Of a hub's dataset, to train on."),
    held_out_split: str = typer.Option("test", help="Of a hub's dataset, to measure on."),
    gpus: str | None = typer.Option(
        None, help="NUMBERxGIB, as 2x80, or none; those of this machine without it."
    ),
    lora: bool | None = typer.Option(
        None, "--lora/--full", help="Train an adapter or all weights; what fits without it."
    ),
    compose: bool = typer.Option(False, help="Write .env for docker-compose.yml."),
    force: bool = typer.Option(False, help="Replace run.yaml and .env."),
) -> None:
    """Write a run file and .env with tokens, sized for the GPUs found; print the plan."""
    _tell("load libraries, and look for GPUs")
    from assay_shared.telemetry.logs import quiet_transformers
    from assay_trainer.start.cards import find_cards
    from assay_trainer.start.making import InitOptions
    from assay_trainer.start.rubric_kinds import check_rubric
    from assay_trainer.start.task_data import DataOptions

    quiet_transformers()
    if sys.stdin.isatty() and not (compose and model is None and data is None):
        model = model or typer.prompt("model (a folder, or a hub's name such as Qwen/Qwen3-4B)")
        data = data or typer.prompt("data (a file, or a hub's name such as openai/gsm8k)")
    if rubric is not None:
        check_rubric(rubric, _own_rubrics())
    columns = (prompt_column, answer_column, data_config, split, held_out_split)
    given = None if data is None else DataOptions(data, held_out, rubric, *columns)
    _make(InitOptions(folder, find_cards(gpus), model, given, lora, compose, force))


def _make(options: "InitOptions") -> None:
    """Write the files; print sizes, plan and next commands."""
    from rich.console import Console

    from assay_trainer.pipeline.plan_view import show_plan
    from assay_trainer.start.making import make

    made = make(options, _tell)
    for line in made.told:
        print(line)
    if made.plan is not None:
        show_plan(made.plan, Console(), as_json=False)
    for file in made.files:
        print(f"wrote {file}")
    print("next:")
    for one in made.commands:
        print(f"  {one}")


def _tell(part: str) -> None:
    """Print what the command does now: under load, a part may take a minute."""
    print(f"init: {part} ...", file=sys.stderr, flush=True)


def _own_rubrics() -> Path | None:
    import os

    named = os.environ.get("ASSAY_REWARD_RUBRICS")
    return Path(named) if named else None
