"""Agreement of a judge with people, with itself, and with the chain's first judge."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from assay_judge.calibration import statistics
from assay_judge.calibration.observations import Observation
from assay_judge.calibration_record import AgainstPrimary, Agreement, Estimate, Said, Stability
from assay_shared.types import Label


def agreement(observations: Sequence[Observation]) -> Agreement:
    """Return the agreement with the gold labels; `observations` must not be empty."""
    right = _said([one for one in observations if one.example.is_correct])
    wrong = _said([one for one in observations if not one.example.is_correct])
    num_decided = sum(one.is_decided for one in observations)

    def share(count: int) -> Estimate:
        return known(statistics.proportion(count, len(observations)))

    return Agreement(
        num_examples=len(observations),
        of_correct=right,
        of_incorrect=wrong,
        kappa=statistics.kappa(right.correct, right.incorrect, wrong.correct, wrong.incorrect),
        accuracy=statistics.proportion(right.correct + wrong.incorrect, num_decided),
        false_positive_rate=statistics.proportion(wrong.correct, wrong.correct + wrong.incorrect),
        false_negative_rate=statistics.proportion(right.incorrect, right.incorrect + right.correct),
        coverage=share(num_decided),
        unsure=share(right.unsure + wrong.unsure),
        abstained=share(right.nothing + wrong.nothing),
    )


def by_domain(observations: Sequence[Observation]) -> dict[str, Agreement]:
    """Return the agreement in each domain; examples without a domain are left out."""
    domains = sorted({one.example.domain for one in observations if one.example.domain})
    return {
        domain: agreement([one for one in observations if one.example.domain == domain])
        for domain in domains
    }


def stability(repeats: Sequence[Sequence[Observation]]) -> Stability | None:
    """Return the stability over repeats of the same examples in the same order.

    None for a single repeat.
    """
    if len(repeats) < 2:
        return None
    rows = list(zip(*repeats, strict=True))
    decided = [row for row in rows if all(one.is_decided for one in row)]
    return Stability(
        num_repeats=len(repeats),
        same_outcome=known(
            statistics.proportion(sum(len({o.label for o in row}) == 1 for row in rows), len(rows))
        ),
        flips=statistics.proportion(
            sum(len({o.label for o in row}) > 1 for row in decided), len(decided)
        ),
        kappa=_kappa_between(repeats[0], repeats[1]),
    )


def against_primary(
    name: str, primary: Sequence[Observation], this: Sequence[Observation]
) -> AgainstPrimary:
    """Compare two judges on the same examples in the same order; `name` is the primary's."""
    pairs = _decided_pairs(primary, this)
    return AgainstPrimary(
        primary=name,
        agreement=statistics.proportion(sum(a.label is b.label for a, b in pairs), len(pairs)),
        kappa=_kappa_between(primary, this),
        says_correct=statistics.mcnemar([(a.says_correct, b.says_correct) for a, b in pairs]),
        is_right=statistics.mcnemar([(a.is_right, b.is_right) for a, b in pairs]),
    )


def _said(observations: Sequence[Observation]) -> Said:
    labels = Counter(one.label for one in observations)
    return Said(
        correct=labels[Label.CORRECT],
        incorrect=labels[Label.INCORRECT],
        unsure=labels[Label.UNSURE],
        nothing=labels[None],
    )


def _decided_pairs(
    first: Sequence[Observation], second: Sequence[Observation]
) -> list[tuple[Observation, Observation]]:
    pairs = zip(first, second, strict=True)
    return [(a, b) for a, b in pairs if a.is_decided and b.is_decided]


def _kappa_between(first: Sequence[Observation], second: Sequence[Observation]) -> Estimate | None:
    said = [(a.says_correct, b.says_correct) for a, b in _decided_pairs(first, second)]
    cells = ((True, True), (True, False), (False, True), (False, False))
    return statistics.kappa(*(said.count(cell) for cell in cells))


_Known = TypeVar("_Known")


def known(value: _Known | None) -> _Known:
    """Return a value known to exist, such as a share of at least one example."""
    assert value is not None
    return value
