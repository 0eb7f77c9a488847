"""The kinds of values in texts."""

from dataclasses import dataclass

from assay_shared.answers.values.quantity import Quantity
from assay_shared.answers.values.units import Unit


@dataclass(frozen=True)
class Formula:
    """An expression for math-verify to read."""

    text: str


@dataclass(frozen=True)
class Words:
    """A text in a language, or anything else equal only to itself."""

    text: str


@dataclass(frozen=True)
class Several:
    """Values in no order. `joined_by` is "," for a list, "{" for a set, "and" or "or" for
    conditions, and "\\\\cup" for the parts of a union."""

    items: tuple["Value", ...]
    joined_by: str = ","


@dataclass(frozen=True)
class Ordered:
    """A tuple, a point or an interval, with its brackets."""

    opened: str
    items: tuple["Value", ...]
    closed: str


@dataclass(frozen=True)
class Matrix:
    """Values in rows."""

    rows: tuple[tuple["Value", ...], ...]


@dataclass(frozen=True)
class Named:
    """A named value: x = 5. With `is_member` the name stands for an element of the value: x > 5,
    x \\\\in [0, 1]."""

    names: frozenset[str]
    value: "Value"
    is_member: bool = False


@dataclass(frozen=True)
class Assigned:
    """Values of different names: x = 1, y = 2. With `has_order` this is the point (1, 2) too."""

    values: tuple[Named, ...]
    has_order: bool


@dataclass(frozen=True)
class Relation:
    """Sides with a relation between each two, all of one direction: "<", "<=", "=" or "!="."""

    sides: tuple[str, ...]
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """A formula (not a plain number) with its unit. `text` is both as they were written."""

    formula: str
    unit: Unit
    text: str


@dataclass(frozen=True)
class Numeral:
    """Digits in a base, unequal to those in another base: the question may ask for this base."""

    digits: str
    base: int


Value = (
    Quantity
    | Numeral
    | Measured
    | Formula
    | Words
    | Several
    | Ordered
    | Matrix
    | Named
    | Assigned
    | Relation
)
