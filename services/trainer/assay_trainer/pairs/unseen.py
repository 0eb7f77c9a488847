"""Refusal of options of `assay data pairs` without a sample to act on."""

from collections.abc import Iterable

from assay_shared.errors import InvalidInput
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.pairs.options import ScoreKind
from assay_trainer.pairs.order import ChoiceOrder

_MOST_NAMED = 20


class UnseenSettings:
    """The bounds and the score without a sample so far."""

    def __init__(self, order: ChoiceOrder) -> None:
        self._bounds = [
            (option, bound)
            for option, bounds in (
                ("--confident", order.confident),
                ("--hallucination", order.hallucination),
                ("--format-violation", order.format_violation),
            )
            for bound in bounds
        ]
        self._needs_ratio = order.score is ScoreKind.PASS_RATIO
        self._components: set[str] = set()

    def look(self, samples: Iterable[SampleRecord]) -> None:
        """Look for the settings in some samples."""
        for sample in samples:
            self._components.update(sample.components)
            self._needs_ratio = self._needs_ratio and sample.pass_ratio is None
            self._bounds = [one for one in self._bounds if one[1].value_of(sample) is None]

    def check(self) -> None:
        """Check that each setting was seen.

        Raises:
            InvalidInput: one was not.
        """
        if self._needs_ratio:
            raise InvalidInput(
                "no sample has a share of passed tests", field="--score", hint="auto or reward"
            )
        if self._bounds:
            option, bound = self._bounds[0]
            names = ", ".join(sorted(self._components)[:_MOST_NAMED]) or "none"
            raise InvalidInput(
                f"no sample has a component or a judge's grade {bound.name!r}",
                field=option,
                hint=f"components: {names}",
            )
