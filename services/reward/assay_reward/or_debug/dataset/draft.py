"""A model before and after it was broken, still with its meaningful names."""

from dataclasses import dataclass

from assay_reward.or_debug.models.instance import DropRow, Edit, SetColumn, SetRow
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel


class Unsuitable(Exception):
    """A sample unfit for its cell. The generator counts it and samples again."""


@dataclass(frozen=True)
class Draft:
    """A model and its broken form.

    `fix` leads from `broken` back to `original`; `root_cause` names the wrong rows and columns.
    """

    original: OptimizationModel
    broken: OptimizationModel
    root_cause: tuple[str, ...]
    fix: tuple[Edit, ...]


def with_wrong_rows(original: OptimizationModel, wrong: list[ModelRow]) -> Draft:
    """Return a draft of `original` with each row of `wrong` in place of its namesake."""
    broken = original
    for row in wrong:
        broken = broken.with_row(row)
    fix = tuple(SetRow(row=original.row(row.name)) for row in wrong)
    return Draft(original, broken, tuple(row.name for row in wrong), fix)


def with_wrong_columns(original: OptimizationModel, wrong: list[Column]) -> Draft:
    """Return a draft of `original` with each column of `wrong` in place of its namesake."""
    broken = original
    for column in wrong:
        broken = broken.with_column(column)
    fix = tuple(SetColumn(column=original.column(column.name)) for column in wrong)
    return Draft(original, broken, tuple(column.name for column in wrong), fix)


def with_added_rows(original: OptimizationModel, added: list[ModelRow]) -> Draft:
    """Return a draft of `original` with foreign rows added."""
    broken = original
    for row in added:
        broken = broken.with_row(row)
    fix = tuple(DropRow(name=row.name) for row in added)
    return Draft(original, broken, tuple(row.name for row in added), fix)
