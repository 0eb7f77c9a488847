"""Effects of another scoring of the same answers. Shapes: G samples of a group."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from pydantic import BaseModel
from scipy.stats import spearmanr

from assay_shared.types import Failure
from assay_trainer.learner.advantage import advantages
from assay_trainer.learner.normalisation.group_rewards import GroupRewards
from assay_trainer.rescore.stored_answers import Mark, StoredGroup

#: Smaller differences are the arithmetic's.
_SAME = 1e-9
_NUM_MOVES = 6


@dataclass(frozen=True)
class Rescored:
    """A stored group with its new marks, in the order of its answers."""

    stored: StoredGroup
    marks: tuple[Mark, ...]
    scorer: str
    #: Of the answers without a new reward.
    failures: tuple[Failure, ...] = ()

    def both_G(self) -> tuple[list[float], list[float]]:
        """Return the rewards before and after of the samples with both."""
        pairs = [
            (old.value, new.value)
            for old, new in zip(self.stored.marks, self.marks, strict=True)
            if old.value is not None and new.value is not None
        ]
        return [old for old, _ in pairs], [new for _, new in pairs]


class Spread(BaseModel):
    """Rewards of all samples together; the deviation is null for fewer than two."""

    mean: float
    std: float | None


class GroupChange(BaseModel):
    """A group has a signal if two of its rewards differ.

    The rank correlation is Spearman's, mean and median over the groups with a signal both before
    and after.
    """

    num_groups: int
    num_with_signal_before: int
    num_with_signal_after: int
    num_gained_signal: int
    num_lost_signal: int
    rank_correlation_mean: float | None
    rank_correlation_median: float | None
    num_correlated: int


class AdvantageChange(BaseModel):
    """Of (r - mean) / (std + 1e-4) within each group, before and after."""

    mean_absolute: float
    largest: float
    #: Among samples with an advantage other than 0 on both sides.
    share_of_other_sign: float | None


class Change(BaseModel):
    """Changes of the samples with both rewards; `outcomes` counts all other samples too.

    `outcomes` is by the outcome before, then by the outcome after; no reward is `failed`.
    """

    num_samples: int
    num_compared: int
    before: Spread | None = None
    after: Spread | None = None
    mean_change: float | None = None
    share_changed: float | None = None
    outcomes: dict[str, dict[str, int]]
    failures: dict[str, int]
    groups: GroupChange | None = None
    advantages: AdvantageChange | None = None


class RunComparison(BaseModel):
    """The change over all samples, by the scorer of the first rewards, and by source."""

    run: str
    #: What was asked for; null for each task's own.
    rubric: str | None
    scorers: list[str]
    left_out: dict[str, int]
    #: The first message of each class of failures.
    failure_examples: dict[str, str] = {}
    all: Change
    by_scorer: dict[str, Change]
    by_source: dict[str, Change]


def compare(
    run: str, rubric: str | None, rescored: Sequence[Rescored], left_out: dict[str, int]
) -> RunComparison:
    """Return all changes of a run."""
    return RunComparison(
        run=run,
        rubric=rubric,
        scorers=sorted({one.scorer for one in rescored if one.scorer}),
        left_out=left_out,
        failure_examples={
            str(failure.failure_class): failure.message
            for one in reversed(rescored)
            for failure in reversed(one.failures)
        },
        all=change(rescored),
        by_scorer=_by(rescored, [one.stored.scorer for one in rescored]),
        by_source=_by(rescored, [one.stored.source for one in rescored]),
    )


def _by(rescored: Sequence[Rescored], names: Sequence[str]) -> dict[str, Change]:
    return {
        name or "none": change([one for one, n in zip(rescored, names, strict=True) if n == name])
        for name in sorted(set(names))
    }


def change(rescored: Sequence[Rescored]) -> Change:
    """Return the changes in these groups."""
    pairs_PG = [pair for one in rescored if (pair := one.both_G())[0]]
    old = [value for before, _ in pairs_PG for value in before]
    new = [value for _, after in pairs_PG for value in after]
    common = {
        "num_samples": sum(len(one.marks) for one in rescored),
        "num_compared": len(old),
        "outcomes": _outcomes(rescored),
        "failures": dict(Counter(str(f.failure_class) for one in rescored for f in one.failures)),
    }
    if not old:
        return Change.model_validate(common)
    differences = [y - x for x, y in zip(old, new, strict=True)]
    values = {
        "before": _spread(old),
        "after": _spread(new),
        "mean_change": fmean(differences),
        "share_changed": fmean(abs(one) > _SAME for one in differences),
        "groups": _groups(pairs_PG),
        "advantages": _advantages(pairs_PG),
    }
    return Change.model_validate(common | values)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(mean=fmean(values), std=stdev(values) if len(values) > 1 else None)


def _outcomes(rescored: Iterable[Rescored]) -> dict[str, dict[str, int]]:
    table: dict[str, Counter[str]] = {}
    for one in rescored:
        for old, new in zip(one.stored.marks, one.marks, strict=True):
            table.setdefault(str(old.outcome), Counter())[str(new.outcome)] += 1
    return {old: dict(counts) for old, counts in sorted(table.items())}


def _groups(pairs_PG: Sequence[tuple[list[float], list[float]]]) -> GroupChange:
    signals = [(_varies(before), _varies(after)) for before, after in pairs_PG]
    correlations = [
        float(spearmanr(before, after).statistic)
        for (before, after), both in zip(pairs_PG, signals, strict=True)
        if all(both)
    ]
    return GroupChange(
        num_groups=len(signals),
        num_with_signal_before=sum(old for old, _ in signals),
        num_with_signal_after=sum(new for _, new in signals),
        num_gained_signal=sum(new and not old for old, new in signals),
        num_lost_signal=sum(old and not new for old, new in signals),
        rank_correlation_mean=fmean(correlations) if correlations else None,
        rank_correlation_median=median(correlations) if correlations else None,
        num_correlated=len(correlations),
    )


def _advantages(pairs_PG: Sequence[tuple[list[float], list[float]]]) -> AdvantageChange:
    old, new = (
        [a or 0.0 for row in advantages([GroupRewards(p[side]) for p in pairs_PG]) for a in row]
        for side in (0, 1)
    )
    differences = [abs(y - x) for x, y in zip(old, new, strict=True)]
    signed = [x * y for x, y in zip(old, new, strict=True) if x * y != 0.0]
    return AdvantageChange(
        mean_absolute=fmean(differences),
        largest=max(differences),
        share_of_other_sign=fmean(product < 0 for product in signed) if signed else None,
    )


def _varies(rewards_G: Sequence[float]) -> bool:
    return max(rewards_G) - min(rewards_G) > _SAME


def summary(comparison: RunComparison) -> list[tuple[str, str]]:
    """Return the change over all samples, as names and texts."""
    found = comparison.all
    lines = [
        ("answers", f"{found.num_samples}, {found.num_compared} with a reward before and after")
    ]
    if found.failures:
        counts = ", ".join(f"{num} {kind}" for kind, num in sorted(found.failures.items()))
        lines.append(("failed", f"{counts}: without a new reward, none of them 0"))
        examples = comparison.failure_examples.items()
        lines += [("", f"{kind}: {message}") for kind, message in sorted(examples)]
    if comparison.left_out:
        counts = ", ".join(f"{num} {reason}" for reason, num in sorted(comparison.left_out.items()))
        lines.append(("left out", counts))
    if found.before and found.after and found.groups and found.advantages:
        lines += [
            ("reward", f"{_shown(found.before)} -> {_shown(found.after)}"),
            ("changed", f"{found.share_changed:.1%} of rewards"),
            ("signal", _signal(found.groups)),
            ("rank correlation", _correlation(found.groups)),
            ("advantages", _moved(found.advantages)),
        ]
    moves = Counter(
        {
            f"{old} -> {new}": num
            for old, counts in found.outcomes.items()
            for new, num in counts.items()
            if old != new
        }
    )
    lines += [("outcome", f"{move}: {num}") for move, num in moves.most_common(_NUM_MOVES)]
    return lines


def _shown(spread: Spread) -> str:
    return f"{spread.mean:.3f}" + ("" if spread.std is None else f" (std {spread.std:.3f})")


def _signal(groups: GroupChange) -> str:
    return (
        f"{groups.num_with_signal_before} -> {groups.num_with_signal_after} of "
        f"{groups.num_groups} groups; {groups.num_gained_signal} gained it, "
        f"{groups.num_lost_signal} lost it"
    )


def _correlation(groups: GroupChange) -> str:
    if groups.rank_correlation_mean is None:
        return "no group has a signal both before and after"
    return (
        f"mean {groups.rank_correlation_mean:.3f}, median {groups.rank_correlation_median:.3f} "
        f"over {groups.num_correlated} groups"
    )


def _moved(change: AdvantageChange) -> str:
    share = change.share_of_other_sign
    signs = "" if share is None else f", {share:.1%} with the other sign"
    return f"moved by {change.mean_absolute:.3f} on average, {change.largest:.3f} at most{signs}"
