"""A broken model, and what is known about it. A policy sees nothing of this but `model`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, ValidationError

from assay_reward.or_debug.models.iis import Irreducible
from assay_reward.or_debug.models.model import Column, ModelRow, Name, OptimizationModel
from assay_shared.errors import DatasetError
from assay_shared.types import Wire

Difficulty = Literal["easy", "medium", "hard"]
DIFFICULTIES: tuple[Difficulty, ...] = ("easy", "medium", "hard")


class SetRow(Wire):
    """`row` takes the place of the one with its name."""

    kind: Literal["set_row"] = "set_row"
    row: ModelRow


class DropRow(Wire):
    """The row goes."""

    kind: Literal["drop_row"] = "drop_row"
    name: Name


class SetColumn(Wire):
    """`column` takes the place of the one with its name."""

    kind: Literal["set_column"] = "set_column"
    column: Column


Edit = Annotated[SetRow | DropRow | SetColumn, Field(discriminator="kind")]


class Instance(Wire):
    """An infeasible `model`, the mistakes in it, and the way back.

    `root_cause` names the rows and columns that were tampered with; `fix`, applied in order, gives
    the original model, whose optimum is `original_objective`. `iis` is one irreducible infeasible
    subset; others may exist. `names` maps the names of `model` to those it had before they were
    made to tell nothing.
    """

    id: str = Field(min_length=1)
    #: A to D are generated; the original's data has other letters too.
    error_type: str = Field(pattern=r"^[A-Z]$")
    difficulty: Difficulty
    model: OptimizationModel
    original_objective: FiniteFloat
    root_cause: tuple[Name, ...] = Field(min_length=1)
    fix: tuple[Edit, ...] = Field(min_length=1)
    iis: Irreducible
    #: How many rows there are of which dropping one alone makes the model feasible.
    num_single_repairs: int = Field(default=0, ge=0)
    names: dict[Name, str] = Field(default={})
    #: Facts for grouping results.
    tags: dict[str, str] = Field(default={})

    def original(self) -> OptimizationModel:
        """The model before it was broken."""
        return apply(self.fix, self.model)


class InstanceFile(Wire):
    """What a `dataset.json` holds."""

    instances: tuple[Instance, ...]


def apply(edits: Iterable[Edit], model: OptimizationModel) -> OptimizationModel:
    """`model` after `edits`. Raises: InvalidInput for an edit of what is not there."""
    for edit in edits:
        if isinstance(edit, DropRow):
            model = model.without_row(edit.name)
        elif isinstance(edit, SetRow):
            model.row(edit.row.name)
            model = model.with_row(edit.row)
        else:
            model.column(edit.column.name)
            model = model.with_column(edit.column)
    return model


def save(instances: Iterable[Instance], path: Path) -> None:
    """Write `instances` as JSON, one a line within the list."""
    lines = ",\n".join(instance.model_dump_json() for instance in instances)
    path.write_text(f'{{"instances": [\n{lines}\n]}}\n')


def load(path: Path) -> tuple[Instance, ...]:
    """The instances in a `dataset.json`.

    Raises: DatasetError that names the file and the field that is wrong.
    """
    if not path.is_file():
        raise DatasetError("no such file", field=str(path), hint="assay or-debug generate")
    try:
        return InstanceFile.model_validate_json(path.read_text()).instances
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise DatasetError(f"{where}: {first['msg']}", field=str(path)) from error
