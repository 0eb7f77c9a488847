"""Which of a task's samples become demonstrations: accepted, whole, different, and short."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from assay_shared.text.template_tokens import has_template_token
from assay_shared.types import Status
from assay_trainer.data.words import words_of
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord

#: Differences of less than this count as equal: then the shorter answer is taken.
_STEPS = 10


@dataclass
class TaskSamples:
    """A task with its samples from all evaluations."""

    task: EvaluatedTask
    samples: list[SampleRecord] = field(default_factory=list)


@dataclass(frozen=True)
class Selection:
    """A task's demonstrations; how many samples were scored, accepted and left out."""

    chosen: tuple[SampleRecord, ...]
    num_scored: int
    num_accepted: int
    left_out: Counter[str]


def select(found: TaskSamples, per_task: int, min_score: float | None) -> Selection:
    """Return at most `per_task` accepted samples of a task.

    Without `min_score`, accepted is what the rubric accepts. A failure does not
    count as scored: nobody knows whether the answer is wrong.
    """
    left_out: Counter[str] = Counter()
    usable: list[SampleRecord] = []
    num_scored = num_accepted = 0
    for sample in found.samples:
        if sample.failure is not None:
            left_out["no_score"] += 1
            continue
        num_scored += 1
        is_accepted = _is_accepted(sample, min_score)
        num_accepted += is_accepted
        reason = _reason(sample) if is_accepted else "not_accepted"
        if reason is None:
            usable.append(sample)
        else:
            left_out[reason] += 1
    distinct = list(_distinct(usable))
    left_out["same_answer"] += len(usable) - len(distinct)
    chosen = _diverse(distinct, per_task)
    left_out["over_per_task"] += len(distinct) - len(chosen)
    return Selection(tuple(chosen), num_scored, num_accepted, +left_out)


def _is_accepted(sample: SampleRecord, min_score: float | None) -> bool:
    if min_score is None:
        return sample.outcome is Status.ACCEPTED
    return sample.reward is not None and sample.reward >= min_score


def _reason(sample: SampleRecord) -> str | None:
    """Return why an accepted sample cannot be a demonstration; None if it is one."""
    if sample.truncated:
        return "truncated"
    if sample.turns:
        return "episode"
    if has_template_token(sample.text):
        return "control_token"
    return None if sample.text.strip() else "empty"


def _distinct(samples: Sequence[SampleRecord]) -> Iterator[SampleRecord]:
    """Yield the samples with different words, the shortest first."""
    seen: set[str] = set()
    for sample in sorted(samples, key=_order):
        words = " ".join(words_of(sample.text))
        if words not in seen:
            seen.add(words)
            yield sample


def _order(sample: SampleRecord) -> tuple[int, int, str]:
    return len(sample.text), sample.index, sample.text


def _diverse(samples: Sequence[SampleRecord], number: int) -> list[SampleRecord]:
    """Return the shortest sample, then each time the most different from the samples before.

    Of samples that differ about equally, the shorter one is taken.
    """
    words = [set(words_of(one.text)) for one in samples]
    left = list(range(len(samples)))
    chosen: list[int] = []
    while left and len(chosen) < number:
        best = min(left, key=lambda at: (-_difference(words, at, chosen), at))
        left.remove(best)
        chosen.append(best)
    return [samples[at] for at in chosen]


def _difference(words: Sequence[set[str]], at: int, chosen: Sequence[int]) -> int:
    """Return the difference in words to the nearest chosen sample, in tenths."""
    mine = words[at]
    shares = [1 - len(mine & words[one]) / (len(mine | words[one]) or 1) for one in chosen]
    return round(_STEPS * min(shares, default=0.0))
