"""The order of `assay data pairs`: which samples may be pairs, how many, and where they go."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from assay_shared.errors import InvalidInput
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.pairs.options import PairsPerPrompt, ScoreKind

_BOUND = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,99})\s*(>=|<=|<|>)\s*(-?\d+(?:\.\d+)?)")
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
}


class RejectionType(StrEnum):
    """Why the worse answer of a pair is worse. `lower_score`: it is right, and scores less."""

    TRUNCATED = "truncated"
    REFUSAL = "refusal"
    HALLUCINATION = "hallucination"
    FORMAT_VIOLATION = "format_violation"
    SYNTAX_ERROR = "syntax_error"
    RUNTIME_ERROR = "runtime_error"
    TIME_LIMIT = "time_limit"
    OTHER_LIMIT = "other_limit"
    WRONG_ANSWER = "wrong_answer"
    LOWER_SCORE = "lower_score"


@dataclass(frozen=True)
class ComponentBound:
    """A bound for a component of the reward, or for a judge's grade, by its name."""

    name: str
    sign: str
    limit: float

    @classmethod
    def read(cls, text: str, option: str) -> "ComponentBound":
        """Return the bound in a text such as faithful<0.5.

        Raises:
            InvalidInput: it is none.
        """
        found = _BOUND.fullmatch(text.strip())
        if found is None:
            raise InvalidInput(
                f"{text[:100]!r} is not a bound such as faithful<0.5, by >=, <=, < or >",
                field=option,
            )
        return cls(found[1], found[2], float(found[3]))

    def value_of(self, sample: SampleRecord) -> float | None:
        """Return the value of the component or the grade; None of a sample without it."""
        if self.name in sample.components:
            return sample.components[self.name]
        for detail in sample.details.values():
            found = re.search(rf"(?:^|, ){re.escape(self.name)} (-?\d+)(?=,| by )", detail)
            if found:
                return float(found[1])
        return None

    def holds(self, sample: SampleRecord) -> bool:
        """Return True if the sample has the value, and it is within the bound."""
        value = self.value_of(sample)
        return value is not None and _SIGNS[self.sign](value, self.limit)


def bounds_of(texts: Sequence[str] | None, option: str) -> tuple[ComponentBound, ...]:
    """Return the bounds in the texts of an option; raises as `ComponentBound.read`."""
    return tuple(ComponentBound.read(text, option) for text in texts or ())


def caps_of(texts: Sequence[str]) -> dict[RejectionType, int]:
    """Return the most pairs of a type, written as refusal=10.

    Raises:
        InvalidInput: a text is none, or a type is given twice.
    """
    found: dict[RejectionType, int] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        known = name in RejectionType.__members__.values()
        if not equals or not known or not number.isdecimal() or name in found:
            raise InvalidInput(
                f"{text[:100]!r} is not a type, given once, with a number such as refusal=10",
                field="--cap",
                hint=f"types: {', '.join(RejectionType)}",
            )
        found[RejectionType(name)] = int(number)
    return found


@dataclass(frozen=True)
class ChoiceOrder:
    """Which answers of a task become pairs."""

    per_prompt: PairsPerPrompt = PairsPerPrompt.BEST_WORST
    score: ScoreKind = ScoreKind.AUTO
    #: The least difference of the scores of a pair.
    margin: float = 0.3
    #: The chosen answer must be accepted.
    accepted_only: bool = False
    #: Two answers that share more of their pairs of words are one answer.
    max_similarity: float = 0.95
    #: Samples outside of any of them are left out.
    confident: tuple[ComponentBound, ...] = ()
    hallucination: tuple[ComponentBound, ...] = ()
    format_violation: tuple[ComponentBound, ...] = ()
    caps: Mapping[RejectionType, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PairsOrder:
    """Pairs of the samples of `evaluations`, written to the folder `output`."""

    evaluations: tuple[Path, ...]
    output: Path
    choice: ChoiceOrder = ChoiceOrder()
    #: Ask the judge about each pair, in both orders.
    judge: bool = False
    num_shown: int = 20
    seed: int = 0
    data_folder: Path | None = None
