"""A linear or mixed-integer model: rows, columns, an objective, and its complete text."""

import hashlib
import json
import math
from collections import Counter
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    FiniteFloat,
    PlainSerializer,
    model_validator,
)

from assay_shared.errors import InvalidInput
from assay_shared.types import Wire

Sense = Literal["<=", ">=", "=", "range", "free"]


def _not_zero(value: float) -> float:
    if value == 0.0:
        raise ValueError("a coefficient of 0 is left out")
    return value


def _lower(value: float) -> float:
    if math.isnan(value) or value == math.inf:
        raise ValueError(f"{value} is not a lower side; give a finite number, or null for none")
    return value


def _upper(value: float) -> float:
    if math.isnan(value) or value == -math.inf:
        raise ValueError(f"{value} is not an upper side; give a finite number, or null for none")
    return value


def _finite_or_null(value: float) -> float | None:
    return None if math.isinf(value) else value


#: A word, so that a name reads the same in a text, in an action and in an MPS file.
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Coefficient = Annotated[FiniteFloat, AfterValidator(_not_zero)]
_ToJson = PlainSerializer(_finite_or_null, return_type=float | None)
#: Finite or -inf. JSON has no infinity: null stands for no side.
LowerSide = Annotated[
    float,
    AfterValidator(_lower),
    BeforeValidator(
        lambda value: -math.inf if value is None else value, json_schema_input_type=float | None
    ),
    _ToJson,
]
#: Finite or inf; null in JSON.
UpperSide = Annotated[
    float,
    AfterValidator(_upper),
    BeforeValidator(
        lambda value: math.inf if value is None else value, json_schema_input_type=float | None
    ),
    _ToJson,
]


class Sided(Wire):
    """A named quantity with a lower and an upper side."""

    name: Name
    lower: LowerSide = -math.inf
    upper: UpperSide = math.inf


class ModelRow(Sided):
    """`lower <= sum of coefficients[column] * column <= upper`."""

    coefficients: dict[Name, Coefficient]

    @model_validator(mode="after")
    def _sides_are_ordered(self) -> Self:
        if self.lower > self.upper:
            raise ValueError(f"{self.name}: lower {self.lower} is above upper {self.upper}")
        return self

    @property
    def sense(self) -> Sense:
        """`=` for equal sides, `range` for two different sides, `free` for no side."""
        if self.lower == self.upper:
            return "="
        if math.isinf(self.lower) and math.isinf(self.upper):
            return "free"
        if math.isinf(self.lower):
            return "<="
        return ">=" if math.isinf(self.upper) else "range"

    def text(self, order: dict[str, int] | None = None) -> str:
        """Return the row as text, for example `c3: 2 x1 + x4 <= 10`.

        `order` is the place of each column; by default, terms keep their own order.
        """
        used = sorted(self.coefficients, key=order.__getitem__) if order else self.coefficients
        terms = expression({name: self.coefficients[name] for name in used})
        if self.sense == "range":
            return f"{self.name}: {number(self.lower)} <= {terms} <= {number(self.upper)}"
        if self.sense == "free":
            return f"{self.name}: {terms} is free"
        side = self.upper if math.isinf(self.lower) else self.lower
        return f"{self.name}: {terms} {self.sense} {number(side)}"


class Column(Sided):
    """A variable between its bounds. `cost` is its coefficient in the objective.

    A lower bound above the upper bound is allowed: it makes the model infeasible, and is a mistake
    to be found.
    """

    lower: LowerSide = 0.0
    is_integer: bool = False
    cost: FiniteFloat = 0.0

    def text(self) -> str:
        """Return the bounds as text, for example `0 <= x1 <= 10`."""
        if math.isinf(self.lower) and math.isinf(self.upper):
            return f"{self.name} is free"
        if self.lower == self.upper:
            return f"{self.name} = {number(self.lower)}"
        low = "" if math.isinf(self.lower) else f"{number(self.lower)} <= "
        high = "" if math.isinf(self.upper) else f" <= {number(self.upper)}"
        return f"{low}{self.name}{high}"


class OptimizationModel(Wire):
    """Rows over columns, and an objective to maximise (or minimise).

    All names of rows and columns are distinct, so a name alone identifies its row or column. Edits
    return a new model and keep the order of rows and columns.
    """

    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[ModelRow, ...] = ()
    maximise: bool = True

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        counts = Counter(part.name for part in (*self.rows, *self.columns))
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"names stand for more than one row or column: {twice}")
        for row in self.rows:
            self._check_columns(row)
        return self

    def _check_columns(self, row: ModelRow) -> None:
        if unknown := [name for name in row.coefficients if name not in self.columns_by_name]:
            raise ValueError(f"row {row.name} has columns that are not there: {unknown}")

    @cached_property
    def rows_by_name(self) -> dict[str, ModelRow]:
        return {row.name: row for row in self.rows}

    @cached_property
    def columns_by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @property
    def is_mip(self) -> bool:
        return any(column.is_integer for column in self.columns)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the model's JSON: equal models have equal digests, in any process."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    def text(self) -> str:
        """Return the whole model as text, in order; numbers have up to ten significant digits."""
        order = {column.name: at for at, column in enumerate(self.columns)}
        costs = {column.name: column.cost for column in self.columns if column.cost}
        integers = ", ".join(column.name for column in self.columns if column.is_integer)
        return "\n".join(
            [
                f"{'maximize' if self.maximise else 'minimize'}: {expression(costs)}",
                "subject to:",
                *(f"  {row.text(order)}" for row in self.rows),
                "bounds:",
                *(f"  {column.text()}" for column in self.columns),
                f"integer: {integers or 'none'}",
            ]
        )

    def row(self, name: str) -> ModelRow:
        """Return the row. Raises: InvalidInput for an unknown name."""
        if name not in self.rows_by_name:
            raise InvalidInput(f"there is no row {name}", field="row")
        return self.rows_by_name[name]

    def column(self, name: str) -> Column:
        """Return the column. Raises: InvalidInput for an unknown name."""
        if name not in self.columns_by_name:
            raise InvalidInput(f"there is no column {name}", field="column")
        return self.columns_by_name[name]

    def without_row(self, name: str) -> "OptimizationModel":
        """Return the model without the row. Raises: InvalidInput for an unknown name."""
        gone = self.row(name)
        return self.replaced(rows=tuple(row for row in self.rows if row is not gone))

    def with_row(self, row: ModelRow) -> "OptimizationModel":
        """Return the model with `row` in place of its namesake, or as the last row.

        Raises: InvalidInput for an unknown column in the row, or a column's name.
        """
        try:
            self._check_columns(row)
        except ValueError as error:
            raise InvalidInput(str(error), field="row") from error
        if row.name in self.columns_by_name:
            raise InvalidInput(f"{row.name} is a column", field="row")
        if row.name not in self.rows_by_name:
            return self.replaced(rows=(*self.rows, row))
        rows = tuple(row if old.name == row.name else old for old in self.rows)
        return self.replaced(rows=rows)

    def with_column(self, column: Column) -> "OptimizationModel":
        """Return the model with `column` in place of its namesake, or as the last column.

        Raises: InvalidInput for a row's name.
        """
        if column.name in self.rows_by_name:
            raise InvalidInput(f"{column.name} is a row", field="column")
        if column.name not in self.columns_by_name:
            return self.replaced(columns=(*self.columns, column))
        columns = tuple(column if old.name == column.name else old for old in self.columns)
        return self.replaced(columns=columns)

    def replaced(
        self, columns: tuple[Column, ...] | None = None, rows: tuple[ModelRow, ...] | None = None
    ) -> "OptimizationModel":
        """Return the model with other rows or columns, unchecked: the caller must pass valid ones.

        A valid row leaves the model valid, and checking the whole model again costs more than
        solving it.
        """
        return OptimizationModel.model_construct(
            columns=self.columns if columns is None else columns,
            rows=self.rows if rows is None else rows,
            maximise=self.maximise,
        )


def number(value: float) -> str:
    """Return a number as text, with up to ten significant digits and no negative zero."""
    return format(value + 0.0, ".10g")


def expression(coefficients: dict[str, float]) -> str:
    """Return a linear expression as text, for example `2 x1 - x4`; `0` without terms."""
    terms: list[str] = []
    for name, value in coefficients.items():
        size = "" if abs(value) == 1 else f"{number(abs(value))} "
        sign = ("- " if value < 0 else "+ ") if terms else ("-" if value < 0 else "")
        terms.append(f"{sign}{size}{name}")
    return " ".join(terms) or "0"
