"""The numbers of a stored set, computed from its tasks and samples alone."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from assay_shared.statistics.task_shares import ratio_interval
from assay_trainer.evaluation.metrics import shares
from assay_trainer.evaluation.metrics.outcomes import (
    ERROR_TYPES,
    accepted,
    error_type,
    known_tokens,
    ran,
    scored,
)
from assay_trainer.evaluation.metrics.repair import first_program, repair_metrics
from assay_trainer.evaluation.metrics.set_metrics import (
    CodeMetrics,
    CostMetrics,
    CurvePoint,
    SetMetrics,
    StoredEstimate,
    StratumMetrics,
    TokenSpread,
)
from assay_trainer.evaluation.records.folder import StoredSet
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord

CONFIDENCE = 0.95
#: A tag with more values names the tasks, and makes no strata.
_MOST_VALUES = 64
_SEED = 1


def measure(stored: StoredSet, protocol: Protocol, confidence: float = CONFIDENCE) -> SetMetrics:
    """Return the numbers of a stored set under its protocol."""
    groups = stored.by_task
    measured = _Measured(protocol, confidence)
    overall = measured.stratum(stored.tasks, [groups[task.id] for task in stored.tasks])
    num_scored = overall.num_samples - overall.num_failed
    played_s = stored.facts.played_s
    curve, over = measured.curve([groups[task.id] for task in stored.tasks])
    return SetMetrics.model_validate(
        {
            "confidence": confidence,
            "overall": overall,
            "strata": {
                tag: {
                    value: measured.stratum(tasks, [groups[task.id] for task in tasks])
                    for value, tasks in sorted(values.items())
                }
                for tag, values in sorted(_strata(stored.tasks).items())
            },
            "curve": curve,
            "curve_over": over,
            "played_s": played_s,
            "samples_per_s": num_scored / played_s if played_s and num_scored else None,
        }
    )


def _strata(tasks: Sequence[EvaluatedTask]) -> dict[str, dict[str, list[EvaluatedTask]]]:
    """Return the tasks by tag and value; tags with one value, or with very many, make no strata."""
    found: dict[str, dict[str, list[EvaluatedTask]]] = {}
    for task in tasks:
        for tag, value in task.tags.items():
            found.setdefault(tag, {}).setdefault(value, []).append(task)
    return {tag: values for tag, values in found.items() if 1 < len(values) <= _MOST_VALUES}


class _Measured:
    """The numbers of groups of samples under a protocol."""

    def __init__(self, protocol: Protocol, confidence: float) -> None:
        self._protocol = protocol
        self._confidence = confidence

    def curve(self, groups: Sequence[shares.TaskSamples]) -> tuple[list[CurvePoint], str | None]:
        budget = self._protocol.budget_tokens
        if budget is not None:
            return shares.budget_curve(groups, budget, self._confidence), "tokens"
        if self._protocol.samples_per_task > 1:
            return shares.pass_curve(groups, self._confidence), "k"
        return [], None

    def stratum(
        self, tasks: Sequence[EvaluatedTask], groups: Sequence[shares.TaskSamples]
    ) -> StratumMetrics:
        samples = [one for group in groups for one in group]
        good = scored(samples)
        sampled = self._protocol.kind is not ProtocolKind.LIKELIHOOD
        failures = Counter(one.failure.failure_class for one in samples if one.failure)
        by_k = {k: shares.pass_at(groups, k, self._confidence) for k in self._protocol.k}
        rewards = [one.reward for one in good if one.reward is not None]
        found = {
            "num_tasks": len(tasks),
            "num_scored_tasks": sum(bool(scored(group)) for group in groups),
            "num_samples": len(samples),
            "num_failed": len(samples) - len(good),
            "failures": dict(failures),
            "accepted_at_1": self._mean(groups, accepted),
            "pass_at": {k: one for k, one in by_k.items() if one is not None},
            "reward": sum(rewards) / len(rewards) if rewards else None,
            "outcomes": dict(Counter(one.outcome for one in good)),
            "measures": shares.measures(groups, self._confidence),
            "num_without_text": sum(not one.text.strip() for one in good) if sampled else 0,
            "truncated": self._mean(groups, lambda one: one.truncated),
            "code": self._code(groups),
            "costs": self._costs(groups) if good else None,
        }
        return StratumMetrics.model_validate(found | self._of_protocol(tasks, groups))

    def _mean(
        self, groups: Sequence[shares.TaskSamples], holds: Callable[[SampleRecord], float]
    ) -> StoredEstimate | None:
        return shares.mean_share(groups, holds, self._confidence)

    def _of_protocol(
        self, tasks: Sequence[EvaluatedTask], groups: Sequence[shares.TaskSamples]
    ) -> dict[str, object]:
        kind, confidence = self._protocol.kind, self._confidence
        if kind is ProtocolKind.REPAIR:
            first = [[first_program(one) for one in group] for group in groups]
            by_k = {k: shares.pass_at(first, k, confidence) for k in self._protocol.k}
            return {
                "accepted_at_1": self._mean(first, accepted),
                "pass_at": {k: one for k, one in by_k.items() if one is not None},
                "repair": repair_metrics(groups, confidence),
            }
        if kind is ProtocolKind.MAJORITY:
            return {"majority": shares.majority(groups, confidence)}
        if kind is ProtocolKind.BUDGET:
            assert self._protocol.budget_tokens is not None
            budget = self._protocol.budget_tokens
            return {
                "solved_in_budget": shares.solved_within(groups, budget, confidence),
                "num_budget_tasks": sum(shares.tokens_to_solve(one) is not None for one in groups),
            }
        if kind is not ProtocolKind.LIKELIHOOD:
            return {}
        pairs = [
            (task, one) for task, group in zip(tasks, groups, strict=True) for one in scored(group)
        ]
        return {
            name: shares.share(
                [float(shares.option_is_right(*pair, by_mean=by_mean)) for pair in pairs],
                confidence,
            )
            for name, by_mean in (("by_sum", False), ("by_mean", True))
        }

    def _code(self, groups: Sequence[shares.TaskSamples]) -> CodeMetrics | None:
        """Return the numbers of the samples that were tested as programs; None without any."""
        groups = [[one for one in group if one.pass_ratio is not None] for group in groups]
        ratios = [one.pass_ratio or 0.0 for group in groups for one in scored(group)]
        if not ratios:
            return None
        p50, p90 = np.quantile(ratios, [0.5, 0.9])
        return CodeMetrics.model_validate(
            {
                "num_samples": len(ratios),
                "execution_success": self._mean(groups, ran),
                "pass_ratio": self._mean(groups, lambda one: one.pass_ratio or 0.0),
                "pass_ratio_p50": p50,
                "pass_ratio_p90": p90,
                "error_types": {
                    kind: self._mean(groups, _is_of(kind))
                    for kind in dict.fromkeys(ERROR_TYPES.values())
                },
            }
        )

    def _costs(self, groups: Sequence[shares.TaskSamples]) -> CostMetrics:
        counted = [some for group in groups if (some := scored(group))]
        good = [one for group in counted for one in group]
        tokens = known_tokens(good)
        return CostMetrics(
            tokens=None if tokens is None else _spread(tokens),
            sandbox_cpu_s=sum(one.sandbox_cpu_s for one in good),
            judge_s=sum(one.judge_s for one in good),
            judge_tokens=sum(one.judge_tokens for one in good),
            money=sum(one.money for one in good),
            tokens_per_solved=None
            if tokens is None
            else self._per_solved(counted, lambda one: one.num_tokens or 0),
            judging_s_per_solved=self._per_solved(
                counted, lambda one: one.sandbox_cpu_s + one.judge_s
            ),
            money_per_solved=self._per_solved(counted, lambda one: one.money),
        )

    def _per_solved(
        self, groups: Sequence[shares.TaskSamples], cost: Callable[[SampleRecord], float]
    ) -> StoredEstimate | None:
        costs = [sum(map(cost, group)) for group in groups]
        solved = [float(sum(map(accepted, group))) for group in groups]
        if not any(costs):
            return None
        found = ratio_interval(costs, solved, self._confidence, _SEED)
        return None if found is None else shares.estimate(found)


def _is_of(kind: str) -> Callable[[SampleRecord], bool]:
    return lambda sample: error_type(sample) == kind


def _spread(values: Sequence[float]) -> TokenSpread:
    p50, p90 = np.quantile(values, [0.5, 0.9])
    return TokenSpread(mean=sum(values) / len(values), p50=p50, p90=p90, total=sum(values))
