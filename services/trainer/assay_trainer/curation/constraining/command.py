"""`assay data constrain`. What it needs is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer


def constrain(
    sets: Annotated[
        list[str],
        typer.Argument(metavar="SET...", help="Instructions: imported folders or files of tasks."),
    ],
    output: Annotated[Path, typer.Option(help="A new folder to write to.")],
    train: Annotated[
        int, typer.Option(min=1, help="Tasks for training, each of another instruction.")
    ] = 800,
    held_out: Annotated[
        int, typer.Option(min=1, help="Held-out tasks, of further instructions.")
    ] = 100,
    most: Annotated[int, typer.Option(min=1, max=6, help="Most constraints of a task.")] = 3,
    max_characters: Annotated[
        int, typer.Option(min=1, help="Longer instructions are left out.")
    ] = 400,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="A kind by IFEval's name, may be repeated; without it, all kinds."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Which instructions and constraints.")] = 0,
) -> None:
    """Add constraints that a program checks to instructions, in disjoint parts."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.curation.constraining.making import ConstrainOrder, make_constrained

    order = ConstrainOrder(
        sets=tuple(sets),
        output=output,
        num_train=train,
        num_held_out=held_out,
        most_constraints=most,
        max_characters=max_characters,
        kinds=tuple(kind or ()),
        seed=seed,
        data_folder=read_settings(ServiceSettings).data,
    )
    numbers = make_constrained(order)
    print(
        f"{numbers['num_train']} tasks for training, {numbers['num_held_out']} held out: {output}"
    )
    for why, number in numbers["left_out"].items():
        print(f"left out: {number} {why}")
