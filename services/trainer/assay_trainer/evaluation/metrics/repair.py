"""The numbers of rounds of repair, next to independent answers for the same tokens."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

from assay_shared.statistics.paired import difference_interval, mean_over_tasks
from assay_shared.types import Status
from assay_trainer.evaluation.metrics import shares
from assay_trainer.evaluation.metrics.outcomes import ERROR_TYPES, accepted, scored
from assay_trainer.evaluation.metrics.set_metrics import ErrorType, RepairMetrics, StoredEstimate
from assay_trainer.evaluation.records.sample_record import RoundRecord, SampleRecord

#: As in the rubric code.repair.
_BONUS, _PENALTY = 0.2, 0.05
_SEED = 1


def first_program(sample: SampleRecord) -> SampleRecord:
    """Return a sample as it would have ended after its first program."""
    if not sample.rounds:
        return sample
    update = {"outcome": sample.rounds[0].outcome, "num_tokens": sample.rounds[0].num_tokens}
    return sample.model_copy(update=update)


def repair_metrics(groups: Sequence[shares.TaskSamples], confidence: float) -> RepairMetrics | None:
    """Return the numbers of the tasks with a scored sample; None without any."""
    counted = [some for group in groups if (some := scored(group))]
    samples = [one for some in counted for one in some]
    if not samples:
        return None
    failed_first = [[one for one in some if not _is_right(one.rounds[0])] for some in counted]
    over = _difference(counted, confidence)
    return RepairMetrics(
        accepted_at_multi=shares.mean_share(counted, accepted, confidence),
        recovery_rate=shares.mean_share(failed_first, accepted, confidence),
        pass_ratio_change=_change(counted, confidence),
        mean_rounds=sum(len(one.rounds) for one in samples) / len(samples),
        repair_reward=sum(map(_reward, samples)) / len(samples),
        transitions=_transitions(samples),
        num_repeated=sum(_repeated(one) for one in samples),
        tokens=sum(_tokens(one.rounds) for one in samples),
        control_tokens=sum(_tokens((one.rounds[0], *one.control)) for one in samples),
        best_of_n=shares.mean_share(counted, _best_of_n, confidence),
        over_best_of_n=over,
        verdict=_verdict(over),
    )


def _is_right(one: RoundRecord) -> bool:
    return one.outcome is Status.ACCEPTED


def _best_of_n(sample: SampleRecord) -> bool:
    return any(map(_is_right, (sample.rounds[0], *sample.control)))


def _tokens(rounds: Sequence[RoundRecord]) -> int:
    return sum(one.num_tokens for one in rounds)


def _reward(sample: SampleRecord) -> float:
    last = sample.rounds[-1]
    bonus = _BONUS * _is_right(last)
    return (last.pass_ratio or 0.0) + bonus - _PENALTY * (len(sample.rounds) - 1)


def _repeated(sample: SampleRecord) -> int:
    texts = [text.strip() for text, _ in sample.turns]
    return sum(one == other for one, other in pairwise(texts))


def _transitions(samples: Sequence[SampleRecord]) -> dict[ErrorType, dict[ErrorType, int]]:
    found = Counter(
        (ERROR_TYPES[before.outcome], ERROR_TYPES[after.outcome])
        for sample in samples
        for before, after in pairwise(sample.rounds)
    )
    table: dict[ErrorType, dict[ErrorType, int]] = {}
    for (before, after), number in sorted(found.items()):
        table.setdefault(before, {})[after] = number
    return table


def _means(
    groups: Sequence[shares.TaskSamples], value: Callable[[SampleRecord], float]
) -> list[float]:
    return [sum(map(value, some)) / len(some) for some in groups]


def _change(groups: Sequence[shares.TaskSamples], confidence: float) -> StoredEstimate | None:
    def change(sample: SampleRecord) -> float:
        return (sample.rounds[-1].pass_ratio or 0.0) - (sample.rounds[0].pass_ratio or 0.0)

    return shares.estimate(mean_over_tasks(_means(groups, change), confidence, _SEED))


def _difference(groups: Sequence[shares.TaskSamples], confidence: float) -> StoredEstimate | None:
    control, repaired = _means(groups, _best_of_n), _means(groups, accepted)
    return shares.estimate(difference_interval(control, repaired, confidence, _SEED))


def _verdict(over: StoredEstimate | None) -> Literal["PASS", "FAIL", "INCONCLUSIVE"]:
    if over is None or over.low is None or over.high is None:
        return "INCONCLUSIVE"
    if over.low > 0:
        return "PASS"
    return "FAIL" if over.high < 0 else "INCONCLUSIVE"
