"""Neutral names, places and signs of rows, so only the model itself holds information."""

from dataclasses import dataclass
from random import Random

from assay_reward.or_debug.dataset.draft import Draft
from assay_reward.or_debug.models.instance import DropRow, Edit, SetColumn, SetRow, apply
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel


@dataclass(frozen=True)
class Disguised:
    """A draft under neutral names. `names` maps them to the original names."""

    broken: OptimizationModel
    root_cause: tuple[str, ...]
    fix: tuple[Edit, ...]
    names: dict[str, str]

    def original(self) -> OptimizationModel:
        return apply(self.fix, self.broken)


@dataclass(frozen=True)
class Mask:
    """New names by old names, and the rows with a reversed sign."""

    rows: dict[str, str]
    columns: dict[str, str]
    negated: frozenset[str]

    def row(self, row: ModelRow) -> ModelRow:
        sign = -1.0 if row.name in self.negated else 1.0
        sides = (row.lower, row.upper) if sign > 0 else (-row.upper, -row.lower)
        return ModelRow(
            name=self.rows[row.name],
            coefficients={
                self.columns[name]: sign * amount for name, amount in row.coefficients.items()
            },
            lower=sides[0],
            upper=sides[1],
        )

    def column(self, column: Column) -> Column:
        return column.model_copy(update={"name": self.columns[column.name]})

    def edit(self, edit: Edit) -> Edit:
        if isinstance(edit, SetRow):
            return SetRow(row=self.row(edit.row))
        if isinstance(edit, SetColumn):
            return SetColumn(column=self.column(edit.column))
        return DropRow(name=self.rows[edit.name])


def disguise(draw: Random, draft: Draft, share_negated: float = 0.0) -> Disguised:
    """Return the draft with rows and columns shuffled, and numbered in their new order.

    About a share `share_negated` of the rows is multiplied by -1.
    """
    rows, columns = list(draft.broken.rows), list(draft.broken.columns)
    draw.shuffle(rows)
    draw.shuffle(columns)
    mask = Mask(
        rows={row.name: f"c{at}" for at, row in enumerate(rows, start=1)},
        columns={column.name: f"x{at}" for at, column in enumerate(columns, start=1)},
        negated=frozenset(row.name for row in rows if draw.random() < share_negated),
    )
    broken = OptimizationModel(
        columns=tuple(mask.column(column) for column in columns),
        rows=tuple(mask.row(row) for row in rows),
        maximise=draft.broken.maximise,
    )
    new = mask.rows | mask.columns
    return Disguised(
        broken=broken,
        root_cause=tuple(new[name] for name in draft.root_cause),
        fix=tuple(mask.edit(edit) for edit in draft.fix),
        names={now: old for old, now in new.items()},
    )
