"""From the samples of a task to pairs: a pure function, the same pairs for the same samples."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from assay_shared.text.template_tokens import has_template_token
from assay_trainer.data.words import words_of
from assay_trainer.evaluation.metrics.outcomes import accepted
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.pairs.options import PairsPerPrompt, ScoreKind
from assay_trainer.pairs.order import ChoiceOrder, RejectionType
from assay_trainer.pairs.rejection import type_of

_ROUNDING = 1e-9


@dataclass(frozen=True)
class SamplePair:
    """A better and a worse sample of a task, with their scores."""

    chosen: SampleRecord
    rejected: SampleRecord
    chosen_score: float
    rejected_score: float
    type: RejectionType


@dataclass
class TaskPairs:
    """The pairs of a task, and what came to none, by reason."""

    pairs: list[SamplePair] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    #: Two samples at least have a score.
    is_scored: bool = False


def pairs_of(samples: Sequence[SampleRecord], order: ChoiceOrder) -> TaskPairs:
    """Return the pairs of a task's samples.

    A failure never becomes a rejected answer. Ties go to the shorter answer.
    """
    found = TaskPairs()
    scored = _usable(samples, order, found.dropped)
    found.is_scored = len(scored) > 1
    if not found.is_scored:
        found.dropped["too_few_samples"] += 1
        return found
    by_ratio = _by_pass_ratio(scored, order.score)
    scores = {one.index: _score(one, by_ratio) for one in scored}
    reason = _no_pairs(scored, scores, order)
    if reason is not None:
        found.dropped[reason] += 1
        return found
    ranked = sorted(scored, key=lambda one: (-scores[one.index], len(one.text), one.index))
    best = _best(ranked, order)
    others = sorted(
        (one for one in ranked if one is not best),
        key=lambda one: (scores[one.index], len(one.text), one.index),
    )
    for one in others:
        gap = scores[best.index] - scores[one.index]
        if reason := _no_pair(best, one, gap, order):
            found.dropped[reason] += 1
            continue
        pair = SamplePair(best, one, scores[best.index], scores[one.index], type_of(one, order))
        if any(pair.rejected.text == other.rejected.text for other in found.pairs):
            found.dropped["same_rejected"] += 1
            continue
        found.pairs.append(pair)
        if order.per_prompt is PairsPerPrompt.BEST_WORST:
            break
    return found


def _usable(
    samples: Sequence[SampleRecord], order: ChoiceOrder, dropped: Counter[str]
) -> list[SampleRecord]:
    """Return the samples with a score that are confident, and count the others."""
    found = []
    for one in samples:
        if one.failure is not None or one.outcome is None:
            dropped["failed_sample"] += 1
        elif one.turns:
            dropped["episode"] += 1
        elif not all(bound.holds(one) for bound in order.confident):
            dropped["not_confident"] += 1
        elif order.score is ScoreKind.PASS_RATIO and one.pass_ratio is None:
            dropped["no_pass_ratio"] += 1
        else:
            found.append(one)
    return found


def _by_pass_ratio(scored: Sequence[SampleRecord], kind: ScoreKind) -> bool:
    has_all = all(one.pass_ratio is not None for one in scored)
    return kind is ScoreKind.PASS_RATIO or (kind is ScoreKind.AUTO and has_all)


def _score(sample: SampleRecord, by_ratio: bool) -> float:
    """Return what a sample is compared by; without a reward, 1 for an accepted answer."""
    value = sample.pass_ratio if by_ratio else sample.reward
    return float(accepted(sample)) if value is None else value


def _no_pairs(
    scored: Sequence[SampleRecord], scores: dict[int, float], order: ChoiceOrder
) -> str | None:
    """Return why no pair can be made of these samples."""
    highest, lowest = max(scores.values()), min(scores.values())
    if highest <= 0 and lowest >= 0:
        return "all_zero"
    if highest - lowest <= _ROUNDING:
        return "all_equal"
    if order.accepted_only and not any(accepted(one) for one in scored):
        return "none_accepted"
    return None


def _best(ranked: Sequence[SampleRecord], order: ChoiceOrder) -> SampleRecord:
    """Return the first in rank, of the accepted ones if only they may be chosen."""
    return next(one for one in ranked if accepted(one) or not order.accepted_only)


def _no_pair(best: SampleRecord, other: SampleRecord, gap: float, order: ChoiceOrder) -> str | None:
    """Return why two samples do not become a pair."""
    if gap <= _ROUNDING or gap < order.margin - _ROUNDING:
        return "small_margin"
    if not best.text.strip() or not other.text.strip():
        return "empty_answer"
    if has_template_token(best.text):
        return "control_token"
    if similarity(best.text, other.text) >= order.max_similarity:
        return "near_duplicate"
    return None


def similarity(text: str, other: str) -> float:
    """Return the share, from 0 to 1, of neighbouring words that two texts have in common."""
    one, two = _word_pairs(text), _word_pairs(other)
    either = (one | two).total()
    return (one & two).total() / either if either else float(text == other)


def _word_pairs(text: str) -> Counter[tuple[str, str]]:
    words = ["", *words_of(text), ""]
    return Counter(pairwise(words))
