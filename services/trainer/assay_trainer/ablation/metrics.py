"""The metrics of an ablation by their names: a number for each task, from its stored samples.

pass@K         unbiased, over the scored samples
reward         mean reward
rr@K           share of episodes with an optimal model after one of the first K replies (or_debug)
tokens, truncated   sampled tokens; share of answers cut off at the limit
NAME           the mean of a component of the rubric, such as or_faithful
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from assay_shared.errors import ConfigError
from assay_trainer.evaluation.metrics.outcomes import accepted
from assay_trainer.evaluation.pass_at_k import pass_at_k
from assay_trainer.evaluation.records.sample_record import SampleRecord

_AT = re.compile(r"(pass|rr)@([1-9]\d{0,3})")
_NAME = re.compile(r"[A-Za-z][\w.]{0,60}")
_OPTIMAL, _ENDED_OPTIMAL = "Status: optimal", "optimal True"
#: Lower is better.
_COSTS = ("tokens", "truncated")


@dataclass(frozen=True)
class TaskMetric:
    """The value of a task: the mean of its samples' numbers, or pass@K of them."""

    #: A scored sample's number; None if the sample cannot tell.
    number: Callable[[SampleRecord], float | None]
    #: K of pass@K, whose numbers are 0 and 1.
    passes: int | None = None

    def numbers(self, samples: Sequence[SampleRecord]) -> list[float] | None:
        """Return the number of each scored sample; None if any of them cannot tell."""
        found = [one for sample in samples if (one := self.number(sample)) is not None]
        return found if len(found) == len(samples) else None

    def value(self, numbers: Sequence[float]) -> float | None:
        """Return a task's value by its samples' numbers; None if they are too few."""
        if self.passes is None:
            return fmean(numbers) if numbers else None
        if len(numbers) < self.passes:
            return None
        return pass_at_k(len(numbers), round(sum(numbers)), self.passes)

    def __call__(self, samples: Sequence[SampleRecord]) -> float | None:
        """Return a task's value by its scored samples; None if they cannot tell."""
        numbers = self.numbers(samples)
        return None if numbers is None else self.value(numbers)


def check_metrics(names: Sequence[str]) -> None:
    """Check that names can be those of metrics, each once.

    Raises:
        ConfigError: one cannot.
    """
    for name in names:
        if not (_AT.fullmatch(name) or _NAME.fullmatch(name)):
            raise ConfigError(
                f"{name!r} cannot be a metric",
                field="evaluation.metrics",
                hint="pass@1, reward, rr@5, tokens, truncated, or a component of the rubric",
            )
        if list(names).count(name) > 1:
            raise ConfigError(f"{name} stands there twice", field="evaluation.metrics")


def is_lower_better(name: str) -> bool:
    return name in _COSTS


def is_share(name: str) -> bool:
    """Return True if a metric is from 0 to 1 whatever the rubric says."""
    return _AT.fullmatch(name) is not None or name == "truncated"


def is_bounded(name: str) -> bool:
    """Return False of a metric of any size, however small its values are."""
    return name != "tokens"


def passes_of(name: str) -> int | None:
    """Return K of pass@K; None for another metric."""
    found = _AT.fullmatch(name)
    return int(found[2]) if found is not None and found[1] == "pass" else None


def recoveries_of(name: str) -> int | None:
    """Return K of rr@K; None for another metric."""
    found = _AT.fullmatch(name)
    return int(found[2]) if found is not None and found[1] == "rr" else None


def component_of(name: str) -> str | None:
    """Return the component of a rubric that a metric is the mean of; None for another metric."""
    return None if _AT.fullmatch(name) or name in (*_COSTS, "reward") else name


def metric_of(name: str) -> TaskMetric:
    """Return the metric of a name."""
    found = _AT.fullmatch(name)
    if found is not None and found[1] == "pass":
        return TaskMetric(lambda sample: float(accepted(sample)), int(found[2]))
    if found is not None:
        return TaskMetric(lambda sample: _recovered(sample, int(found[2])))
    if name == "tokens":
        return TaskMetric(lambda sample: sample.num_tokens)
    if name == "truncated":
        return TaskMetric(lambda sample: float(sample.truncated))
    if name == "reward":
        return TaskMetric(lambda sample: sample.reward)
    return TaskMetric(lambda sample: sample.components.get(name))


def _recovered(sample: SampleRecord, k: int) -> float | None:
    """Return 1.0 if the model was optimal after one of the first replies; None if nobody knows.

    The last reply has no observation: the rubric's components tell of the end.
    """
    if any(_OPTIMAL in observation for _, observation in sample.turns[:k]):
        return 1.0
    if len(sample.turns) > k or not sample.turns:
        return 0.0
    outcome = sample.components.get("or_outcome")
    if outcome is not None:
        return float(outcome > 0)
    told = sample.details.get("or_faithful")
    return None if told is None else float(told.startswith(_ENDED_OPTIMAL))
