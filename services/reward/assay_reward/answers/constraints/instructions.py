"""A task's instructions, in the form of IFEval's file."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from assay_reward.answers.constraints import layout, length, words
from assay_reward.answers.constraints.constraint import Constraint

#: Number of texts that `follows_loosely` checks.
NUM_VARIANTS = 8
KINDS = {kind.name: kind for kind in (*words.KINDS, *length.KINDS, *layout.KINDS)}


class Instructions(BaseModel):
    """Instructions by id. `kwargs` has an entry for each id; nulls in an entry are ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instruction_id_list: tuple[str, ...] = Field(min_length=1, max_length=64)
    kwargs: tuple[dict[str, Any], ...]

    _constraints: tuple[Constraint, ...] = PrivateAttr()

    @model_validator(mode="after")
    def _parse(self) -> "Instructions":
        if len(self.kwargs) != len(self.instruction_id_list):
            raise ValueError("kwargs must have one entry for each of instruction_id_list")
        self._constraints = tuple(map(_constraint, self.instruction_id_list, self.kwargs))
        return self

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return self._constraints


def _constraint(name: str, kwargs: dict[str, Any]) -> Constraint:
    if name not in KINDS:
        raise ValueError(f"no instruction is called {name!r}; known: {', '.join(sorted(KINDS))}")
    given = {key: value for key, value in kwargs.items() if value is not None}
    try:
        return KINDS[name].model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, (name, *first["loc"])))
        raise ValueError(f"{where}: {first['msg']}") from None


def follows(constraint: Constraint, text: str) -> bool:
    """Return True if the text follows the instruction to the letter; an empty text does not."""
    return bool(text.strip()) and constraint.holds(text)


def follows_loosely(constraint: Constraint, text: str) -> bool:
    """Return True if the text follows, with or without its asterisks, first line and last line."""
    lines = text.split("\n")
    parts = (text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])))
    variants = dict.fromkeys((*parts, *(part.replace("*", "") for part in parts)))
    return any(follows(constraint, variant) for variant in variants)
