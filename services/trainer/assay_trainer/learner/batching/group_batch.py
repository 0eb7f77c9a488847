"""The groups of a step, with statistics of their collection."""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import variance
from typing import Any

from assay_shared.types import Rollout, Scored, ScoredGroup, Status, Task


class DropReason(StrEnum):
    """Reasons to drop a scored group: the weights behind it are too old or unknown."""

    TOO_OLD = "too_old"
    UNKNOWN_VERSION = "unknown_version"


class DiscardReason(StrEnum):
    """Reasons not to train on a group.

    `too_old`, `unknown_version`: as in `DropReason`. `set_aside`: the task cannot be sampled or
    scored for its own reasons. `failed`: no sample has a score. `no_signal`: all rewards are equal.
    `nothing_to_learn`: `grpo.overlong` filters out each scored sample. `flat_step`: all groups of
    the batch were equal, so the batch was collected again.
    """

    TOO_OLD = "too_old"
    UNKNOWN_VERSION = "unknown_version"
    SET_ASIDE = "set_aside"
    FAILED = "failed"
    NO_SIGNAL = "no_signal"
    NOTHING_TO_LEARN = "nothing_to_learn"
    FLAT_STEP = "flat_step"


@dataclass
class GroupBatch:
    """The groups of a step, with statistics of their collection."""

    version: int
    groups: list[ScoredGroup] = field(default_factory=list)
    #: The draw of each group.
    draws: list[int] = field(default_factory=list)
    #: Samples of the played groups: an answer, with or without a score.
    num_generated: int = 0
    #: Samples with an advantage.
    num_trained: int = 0
    num_played: int = 0
    #: Groups asked for since the process began, and those of them that are in no batch so far.
    num_asked: int = 0
    num_in_flight: int = 0
    #: Groups of the batches before this one that taught nothing, so that it was collected.
    num_flat_before: int = 0
    num_without_signal: int = 0
    #: Scored groups that are not trained on: without signal, or without an answer to learn.
    num_left_out: int = 0
    num_set_aside: int = 0
    #: Answers of `groups` that the rule of `grpo.overlong` touches.
    num_overlong: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Numbers that the rubric's verifiers noted of the samples, by name.
    measures: dict[str, list[float]] = field(default_factory=dict)
    played_by_domain: Counter[str] = field(default_factory=Counter)
    values: list[float] = field(default_factory=list)
    #: Variance of the rewards of each group with at least two of them.
    variances: list[float] = field(default_factory=list)
    #: The age of each group.
    staleness: list[int] = field(default_factory=list)
    #: Sampled tokens of each answer of the groups dropped as too old.
    dropped_lengths: list[int] = field(default_factory=list)
    generate_time_s: float = 0.0
    score_time_s: float = 0.0
    judge_tokens: int = 0
    judge_money: float = 0.0

    @property
    def num_considered(self) -> int:
        """Return the number of scored groups: taken and left out."""
        return len(self.groups) + self.num_left_out

    @property
    def dropped_length_mean(self) -> float | None:
        return mean_of(self.dropped_lengths)

    @property
    def trained_by_domain(self) -> Counter[str]:
        """Count the groups to train on by domain."""
        return Counter(domain_of(scored.group.task) for scored in self.groups)

    @property
    def answers(self) -> list[Rollout]:
        """Return the scored samples of the groups to train on, also those left out as overlong."""
        return [
            rollout
            for scored in self.groups
            for rollout, reward in zip(scored.group.rollouts, scored.rewards, strict=True)
            if isinstance(reward, Scored)
        ]

    @property
    def reward_mean(self) -> float | None:
        return mean_of(self.values)

    @property
    def pass_rate(self) -> float | None:
        num_scored = sum(self.outcomes.values())
        return self.outcomes[Status.ACCEPTED] / num_scored if num_scored else None

    def take(self, draw: int, scored: ScoredGroup, age: int) -> None:
        """Add a group to train on, in its place by draw.

        An update's sums depend on the order of groups, and their arrival is luck.
        """
        at = bisect(self.draws, draw)
        self.draws.insert(at, draw)
        self.groups.insert(at, scored)
        self.staleness.insert(at, age)

    def count(self, scored: ScoredGroup, refusal: DropReason | None) -> None:
        """Add a group's samples to the sums; failures are counted and enter no other sum.

        A group sampled by unknown weights says nothing about this policy: it counts only as
        dropped.
        """
        self.num_played += 1
        self.num_generated += len(scored.group.rollouts)
        self.judge_tokens += sum(one.cost.judge_tokens for one in scored.costs)
        self.judge_money += sum(one.cost.money for one in scored.costs)
        self.played_by_domain[domain_of(scored.group.task)] += 1
        if refusal is not None:
            self.refused[refusal] += 1
        if refusal is DropReason.TOO_OLD:
            self.dropped_lengths += [one.num_sampled for one in scored.group.rollouts]
        if refusal is DropReason.UNKNOWN_VERSION:
            return
        self.generate_time_s += scored.generate_time_s
        self.score_time_s += scored.score_time_s
        if scored.failure is not None:
            self.failures[scored.failure.failure_class] += 1
        self._count_rewards(scored)

    def _count_rewards(self, scored: ScoredGroup) -> None:
        values = []
        for reward in scored.rewards:
            for name, value in reward.measures.items():
                self.measures.setdefault(name, []).append(value)
            if isinstance(reward, Scored):
                values.append(reward.value)
                self.outcomes[reward.outcome] += 1
            else:
                self.failures[reward.failure.failure_class] += 1
        self.values += values
        if len(values) > 1:
            self.variances.append(variance(values))

    def facts(self, groups_per_step: int) -> dict[str, Any]:
        """Return the fields of a step's event that tell of its groups."""
        return {
            "version": self.version,
            "reward": self.reward_mean,
            "pass_rate": self.pass_rate,
            "num_groups": len(self.groups),
            "num_played": self.num_played,
            "num_asked": self.num_asked,
            "num_in_flight": self.num_in_flight,
            "num_flat_before": self.num_flat_before,
            "num_generated": self.num_generated,
            "num_trained": self.num_trained,
            "judge_tokens": self.judge_tokens,
            "judge_money": self.judge_money,
            "num_without_signal": self.num_without_signal,
            "num_set_aside": self.num_set_aside,
            "num_replaced": max(0, self.num_considered - groups_per_step),
            "num_overlong": self.num_overlong,
            "reward_variance": mean_of(self.variances),
            "refused": dict(self.refused),
            "failures": dict(self.failures),
            "outcomes": dict(self.outcomes),
            "measures": {name: mean_of(found) for name, found in sorted(self.measures.items())},
            "played_by_domain": dict(self.played_by_domain),
            "trained_by_domain": dict(self.trained_by_domain),
            "staleness_mean": mean_of(self.staleness),
            "dropped_length_mean": self.dropped_length_mean,
        }


def domain_of(task: Task) -> str:
    """Return the task's domain, or the name of its dataset without one."""
    return task.tags.get("domain", task.dataset)


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; None of no values."""
    return sum(values) / len(values) if values else None
