"""A broken model and the truth about it. A policy sees only `model`."""

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
    """Replacement of a row by `row`, which has the same name."""

    kind: Literal["set_row"] = "set_row"
    row: ModelRow


class DropRow(Wire):
    """Removal of a row."""

    kind: Literal["drop_row"] = "drop_row"
    name: Name


class SetColumn(Wire):
    """Replacement of a column by `column`, which has the same name."""

    kind: Literal["set_column"] = "set_column"
    column: Column


Edit = Annotated[SetRow | DropRow | SetColumn, Field(discriminator="kind")]


class Instance(Wire):
    """An infeasible `model`, the mistakes in it, and the way back.

    `root_cause` names the wrong rows and columns. `fix`, applied in order, gives the original
    model, with the optimum `original_objective`. `iis` is an irreducible infeasible subset; others
    may exist. `names` maps the neutral names in `model` to the original names.
    """

    id: str = Field(min_length=1)
    #: A to D are generated; published data has other letters too.
    error_type: str = Field(pattern=r"^[A-Z]$")
    difficulty: Difficulty
    model: OptimizationModel
    original_objective: FiniteFloat
    root_cause: tuple[Name, ...] = Field(min_length=1)
    fix: tuple[Edit, ...] = Field(min_length=1)
    iis: Irreducible
    #: Number of rows whose removal alone makes the model feasible.
    num_single_repairs: int = Field(default=0, ge=0)
    names: dict[Name, str] = Field(default={})
    #: Facts for grouping results.
    tags: dict[str, str] = Field(default={})

    def original(self) -> OptimizationModel:
        """Return the model before it was broken."""
        return apply(self.fix, self.model)


class InstanceFile(Wire):
    """The content of a `dataset.json`."""

    instances: tuple[Instance, ...]


def apply(edits: Iterable[Edit], model: OptimizationModel) -> OptimizationModel:
    """Return `model` after `edits`. Raises: InvalidInput for an edit of a missing row or column."""
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
    """Write `instances` as a JSON list, with a line for each instance."""
    lines = ",\n".join(instance.model_dump_json() for instance in instances)
    path.write_text(f'{{"instances": [\n{lines}\n]}}\n')


def load(path: Path) -> tuple[Instance, ...]:
    """Return the instances in a `dataset.json`.

    Raises: DatasetError, with the file and the wrong field.
    """
    if not path.is_file():
        raise DatasetError("no such file", field=str(path), hint="assay or-debug generate")
    try:
        return InstanceFile.model_validate_json(path.read_text()).instances
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise DatasetError(f"{where}: {first['msg']}", field=str(path)) from error
