"""Measures of bench results: agreement with the gold labels and between the two orders."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from assay_judge.bench.names import SetName
from assay_judge.bench.record import BenchCost, Measures, Outcomes
from assay_judge.bench.results import Result
from assay_judge.bench.sets import STYLES
from assay_judge.calibration import statistics
from assay_judge.calibration_record import Estimate

#: Domains of RM-Bench whose mean counts as one domain, `safety`, in its published results.
_SAFETY = ("safety-refuse", "safety-response")
_DIFFICULTIES = ("easy", "normal", "hard")
_Value = TypeVar("_Value")


def measure(results: Sequence[Result]) -> Measures:
    """Return all measures of some pairs under one prompt."""
    judged = [one for one in results if one.failure is None]
    agree = _by_row(judged, lambda one: [one.choices[0] == one.choices[1]])
    design = statistics.agreement_design(agree)
    return Measures(
        num_pairs=len(results),
        num_rows=len({one.row for one in results}),
        outcomes=_outcomes(results),
        accuracy=statistics.clustered_share(_by_row(judged, is_right)),
        pair_accuracy=statistics.clustered_share(_by_row(judged, lambda one: [_wins(one)])),
        flips=statistics.clustered_share([[not same for same in row] for row in agree]),
        position=statistics.clustered_difference(_by_row(judged, lambda one: [_place(one)])),
        kappa_orders=_kappa([one.choices for one in judged], design),
        kappa_gold=_kappa(
            [(choice, one.better) for one in judged for choice in one.choices],
            statistics.agreement_design(_by_row(judged, is_right)),
        ),
        ties=statistics.clustered_share(
            _by_row(judged, lambda one: [choice is None for choice in one.choices])
        ),
        failed=statistics.clustered_share(_by_row(results, lambda one: [one.failure is not None])),
    )


def is_right(result: Result) -> list[bool]:
    """Return, for each order, True if its verdict names the better answer."""
    return [choice == result.better for choice in result.choices]


def _wins(result: Result) -> bool:
    """Return True if both orders together favour the better answer, as JudgeBench counts.

    At least one order names the better answer and neither names the worse.
    """
    wrong = 1 - result.better
    return result.better in result.choices and wrong not in result.choices


def _place(result: Result) -> int:
    """Return 1 for the first place in both orders, -1 for the second in both, else 0."""
    if result.choices == (0, 1):
        return 1
    return -1 if result.choices == (1, 0) else 0


def _by_row(
    results: Iterable[Result], values: Callable[[Result], list[_Value]]
) -> list[list[_Value]]:
    """Return values in clusters by row: values of the same row are not independent."""
    rows: dict[str, list[_Value]] = defaultdict(list)
    for one in results:
        rows[one.row] += values(one)
    return list(rows.values())


def _kappa(said: Sequence[tuple[int | None, ...]], design: float) -> Estimate | None:
    cells = Counter(said)
    counts = (cells[0, 0], cells[0, 1], cells[1, 0], cells[1, 1])
    return statistics.kappa(*counts, design=design)


def _outcomes(results: Sequence[Result]) -> Outcomes:
    counts = Counter(map(_outcome, results))
    return Outcomes(**{name: counts[name] for name in Outcomes.model_fields})


def _outcome(result: Result) -> str:
    if result.failure is not None:
        return "failed"
    if None in result.choices:
        return "tie"
    if result.choices[0] == result.choices[1]:
        return "right_twice" if result.choices[0] == result.better else "wrong_twice"
    return "first_twice" if _place(result) == 1 else "second_twice"


def by(results: Iterable[Result], key: Callable[[Result], str | None]) -> dict[str, list[Result]]:
    """Return results in groups, sorted by name; results without a key are left out."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        name = key(one)
        if name is not None:
            groups[name].append(one)
    return {name: groups[name] for name in sorted(groups)}


def by_difficulty(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return results by style difficulty, easy first; empty for a set without styles."""
    groups = by(results, lambda one: one.difficulty)
    return {name: groups[name] for name in _DIFFICULTIES if name in groups}


def style_matrix(results: Sequence[Result]) -> tuple[tuple[Estimate | None, ...], ...]:
    """Return accuracy by style of the better answer (rows) and of the worse (columns).

    Empty for a set without styles.
    """
    groups = by(results, lambda one: str(one.styles) if one.styles else None)
    if not groups:
        return ()
    places = range(len(STYLES))
    return tuple(
        tuple(_accuracy(groups.get(str((better, worse)), ())) for worse in places)
        for better in places
    )


def _accuracy(results: Iterable[Result]) -> Estimate | None:
    return statistics.clustered_share(_by_row(results, is_right))


def published(name: SetName, results: Sequence[Result]) -> dict[str, Estimate | None]:
    """Return accuracies as the set's authors report them, over the verdicts so far.

    A mean over subsets is null until each subset in the results has a verdict.
    """
    subsets = by(results, lambda one: one.subset)
    if name is SetName.JUDGEBENCH:
        return {
            "pairs won over both orders": statistics.clustered_share(
                _by_row(results, lambda one: [_wins(one)] if one.failure is None else [])
            )
        }
    if name is SetName.LLMBAR:
        adversarial = [one for one in subsets if one.startswith("Adversarial")]
        return {
            "natural": _accuracy(subsets.get("Natural", ())),
            "adversarial, mean of its sets": _mean(subsets, dict.fromkeys(adversarial, 1.0)),
        }
    weights = _domain_weights(list(subsets))
    levels = by_difficulty(results)
    found = {
        level: _mean(by(some, lambda one: one.subset), weights) for level, some in levels.items()
    }
    domains = ", ".join(sorted({_domain(one) for one in subsets}))
    return found | {f"mean of {domains}": _mean(subsets, weights)}


def _domain(subset: str) -> str:
    return "safety" if subset in _SAFETY else subset


def _domain_weights(subsets: Sequence[str]) -> dict[str, float]:
    """Return subsets' weights: equal over domains, and equal within safety's two halves."""
    sizes = Counter(map(_domain, subsets))
    return {one: 1 / sizes[_domain(one)] for one in subsets}


def _mean(groups: dict[str, list[Result]], weights: dict[str, float]) -> Estimate | None:
    found = [_accuracy(groups.get(name, ())) for name in weights]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    whole = sum(weights.values())
    return statistics.weighted_mean(known, [weight / whole for weight in weights.values()])


def difference(first: Iterable[Result], second: Iterable[Result]) -> Estimate | None:
    """Return the first's accuracy minus the second's, on pairs judged in both."""
    others = {one.key: one for one in second if one.failure is None}
    both = [one for one in first if one.failure is None and one.key in others]

    def compare(one: Result) -> list[int]:
        return [
            int(a) - int(b) for a, b in zip(is_right(one), is_right(others[one.key]), strict=True)
        ]

    return statistics.clustered_difference(_by_row(both, compare))


def cost(lines: Sequence[Result]) -> BenchCost:
    """Return the numbers of pairs, requests and tokens, and the money spent."""
    return BenchCost(
        num_pairs=len({one.key for one in lines}),
        num_requests=sum(one.num_requests for one in lines),
        prompt_tokens=sum(one.prompt_tokens for one in lines),
        completion_tokens=sum(one.completion_tokens for one in lines),
        money=sum(one.money for one in lines),
    )
