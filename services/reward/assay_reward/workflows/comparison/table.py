"""The table: each candidate's accuracy, rates and costs, and the claim about the learned ones.

Every candidate stands against self-consistency at its own tokens, on the same tasks. Samples
without a score are counted, and are in no mean.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from statistics import fmean
from typing import Final

from assay_reward.workflows.comparison.candidates import DIRECT, CandidateKind, WorkflowCandidate
from assay_reward.workflows.comparison.samples import WorkflowSample
from assay_reward.workflows.comparison.self_consistency import VotedTask, voted_task
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.paired import difference_interval, mean_over_tasks, sign_flip_p
from assay_shared.statistics.power import tasks_to_decide
from assay_shared.types import Task

COSTS: Final = ("tokens", "calls", "money", "seconds")
#: In place of no tokens at all.
_FEWEST: Final = 1e-6
RATES: Final = ("valid", "repaired", "fallback", "fault")


class ClaimVerdict(StrEnum):
    """Whether a workflow beats self-consistency at equal tokens, as far as the tasks show it."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class TableRules:
    """Settings of the table.

    The difference has to exceed `margin`. With a larger share than `most_lost` of samples without
    a score, nothing is claimed: the lost ones may be the hard ones.
    """

    confidence: float = 0.95
    margin: float = 0.0
    most_lost: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class EqualTokens:
    """Self-consistency at a candidate's tokens, on the tasks that have both.

    `num_answers` is the k at which the tokens are equal, before it is held to the answers that
    there are; `ratio` is the tokens of the vote over the candidate's.
    """

    num_tasks: int
    num_answers: float
    ratio: float
    accuracy: Interval
    difference: Interval
    p: float

    @property
    def is_equal(self) -> bool:
        """True if a number of answers has the candidate's tokens."""
        return abs(self.ratio - 1.0) < 0.01


@dataclass(frozen=True)
class CandidateRow:
    """A candidate's numbers. `lost` counts samples without a score by the class of the failure."""

    name: str
    kind: CandidateKind
    num_tasks: int
    num_samples: int
    num_scored: int
    lost: dict[str, int]
    accuracy: Interval | None
    reward: float | None
    rates: dict[str, float]
    costs: dict[str, float]
    against: EqualTokens | None
    verdict: ClaimVerdict
    reason: str


def make_table(
    tasks: Sequence[Task],
    samples: Mapping[str, Sequence[WorkflowSample]],
    candidates: Sequence[WorkflowCandidate],
    rules: TableRules,
) -> list[CandidateRow]:
    """Return a row for each candidate; `samples` are by task id."""
    votes = {}
    for task in tasks:
        direct = [one for one in samples.get(task.id, ()) if one.candidate == DIRECT]
        voted = voted_task(task, direct, COSTS, rules.seed)
        if voted is not None:
            votes[task.id] = voted
    return [_row(one, samples, votes, rules) for one in candidates]


def _row(
    candidate: WorkflowCandidate,
    samples: Mapping[str, Sequence[WorkflowSample]],
    votes: Mapping[str, VotedTask],
    rules: TableRules,
) -> CandidateRow:
    own = {
        task_id: [one for one in found if one.candidate == candidate.name]
        for task_id, found in samples.items()
    }
    scored = {
        task_id: kept
        for task_id, found in own.items()
        if (kept := [one for one in found if one.is_scored])
    }
    everything = [one for found in own.values() for one in found]
    counted = [one for found in scored.values() for one in found]
    against = _against(candidate, scored, votes, rules)
    lost = Counter(_loss(one) for one in everything if not one.is_scored)
    verdict, reason = _claim(against, len(counted), len(everything), len(scored), rules)
    return CandidateRow(
        name=candidate.name,
        kind=candidate.kind,
        num_tasks=len(scored),
        num_samples=len(everything),
        num_scored=len(counted),
        lost=dict(sorted(lost.items())),
        accuracy=_share(list(map(_accuracy, scored.values())), rules) if scored else None,
        reward=fmean(one.reward or 0.0 for one in counted) if counted else None,
        rates={name: _mean(everything, name) for name in RATES},
        costs={name: _mean(counted, name) for name in COSTS},
        against=against,
        verdict=verdict,
        reason=reason,
    )


def _against(
    candidate: WorkflowCandidate,
    scored: Mapping[str, Sequence[WorkflowSample]],
    votes: Mapping[str, VotedTask],
    rules: TableRules,
) -> EqualTokens | None:
    """Return self-consistency at the candidate's mean tokens; None without a task of both."""
    if candidate.name == DIRECT:
        return None
    both = [task_id for task_id in scored if task_id in votes]
    each = fmean(votes[task_id].costs["tokens"] for task_id in both) if both else 0.0
    if not each:
        return None
    tokens = fmean(fmean(one.measure("tokens") for one in scored[task_id]) for task_id in both)
    wanted = max(tokens / each, _FEWEST)
    most = max(len(votes[task_id].accuracies) for task_id in both)
    held = min(max(wanted, 1.0), float(most))
    # A task that lost some of its direct answers may have too few for this vote.
    both = [task_id for task_id in both if len(votes[task_id].accuracies) >= ceil(held)]
    before = [votes[task_id].accuracy(held) for task_id in both]
    after = [_accuracy(scored[task_id]) for task_id in both]
    return EqualTokens(
        num_tasks=len(both),
        num_answers=wanted,
        ratio=held / wanted,
        accuracy=_share(before, rules),
        difference=difference_interval(before, after, rules.confidence, rules.seed),
        p=sign_flip_p(before, after, rules.seed),
    )


def _claim(
    against: EqualTokens | None,
    num_scored: int,
    num_samples: int,
    num_tasks: int,
    rules: TableRules,
) -> tuple[ClaimVerdict, str]:
    """Return whether the candidate beats self-consistency at equal tokens, and why."""
    unclear = ClaimVerdict.INCONCLUSIVE
    if against is None:
        return unclear, "there is no task with both"
    lost = 1 - num_scored / num_samples
    if lost > rules.most_lost:
        return unclear, f"{lost:.0%} of the samples have no score; at most {rules.most_lost:.0%}"
    if against.num_tasks < (1 - rules.most_lost) * num_tasks:
        few = f"{against.num_tasks} of {num_tasks} tasks"
        return unclear, f"only {few} have as many scored direct answers as this vote needs"
    found = against.difference
    if found.low > rules.margin:
        if against.ratio < 0.99:
            held = f"{against.num_answers:.1f} answers have its tokens, and fewer were sampled"
            return unclear, f"{held}: raise --votes"
        return ClaimVerdict.PASS, f"the difference is above {rules.margin:g}"
    if found.high <= rules.margin:
        if against.ratio > 1.01:
            return unclear, "it has fewer tokens than a single direct answer"
        return ClaimVerdict.FAIL, f"the difference is not above {rules.margin:g}"
    needed = tasks_to_decide(found, (rules.margin,), against.num_tasks)
    more = "over a million tasks" if needed is None else f"some {needed} tasks"
    return unclear, f"the interval holds {rules.margin:g}; {more} would decide"


def _accuracy(samples: Sequence[WorkflowSample]) -> float:
    return fmean(bool(one.is_right) for one in samples)


def _share(values: Sequence[float], rules: TableRules) -> Interval:
    found = mean_over_tasks(values, rules.confidence, rules.seed)
    return Interval(found.value, max(0.0, found.low), min(1.0, found.high))


def _mean(samples: Sequence[WorkflowSample], name: str) -> float:
    return fmean(one.measure(name) for one in samples) if samples else 0.0


def _loss(sample: WorkflowSample) -> str:
    name = sample.failure or "unknown"
    return f"{name}, with a fallback's answer" if sample.measure("fallback") else name
