"""A model before and after it was broken, still with its telling names."""

from dataclasses import dataclass

from assay_reward.or_debug.models.instance import DropRow, Edit, SetColumn, SetRow
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel


class Unsuitable(Exception):
    """What was drawn does not make an instance of the cell: another is drawn, and it is counted."""


@dataclass(frozen=True)
class Draft:
    """`fix` leads from `broken` back to `original`; `root_cause` is what was tampered with."""

    original: OptimizationModel
    broken: OptimizationModel
    root_cause: tuple[str, ...]
    fix: tuple[Edit, ...]


def with_wrong_rows(original: OptimizationModel, wrong: list[ModelRow]) -> Draft:
    """`original` with each row of `wrong` in the place of the one with its name."""
    broken = original
    for row in wrong:
        broken = broken.with_row(row)
    fix = tuple(SetRow(row=original.row(row.name)) for row in wrong)
    return Draft(original, broken, tuple(row.name for row in wrong), fix)


def with_wrong_columns(original: OptimizationModel, wrong: list[Column]) -> Draft:
    """`original` with each column of `wrong` in the place of the one with its name."""
    broken = original
    for column in wrong:
        broken = broken.with_column(column)
    fix = tuple(SetColumn(column=original.column(column.name)) for column in wrong)
    return Draft(original, broken, tuple(column.name for column in wrong), fix)


def with_added_rows(original: OptimizationModel, added: list[ModelRow]) -> Draft:
    """`original` with rows that do not belong there."""
    broken = original
    for row in added:
        broken = broken.with_row(row)
    fix = tuple(DropRow(name=row.name) for row in added)
    return Draft(original, broken, tuple(row.name for row in added), fix)
