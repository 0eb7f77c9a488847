"""Comparison of greedy answers, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay_trainer.handoff.engines.answers import ForeignAnswer


@dataclass(frozen=True)
class GreedyAnswer:
    """An answer's tokens and their log-probabilities."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class GreedyComparison:
    """Greedy answers of two engines to the same prompts.

    Answers are compared up to the first difference. A difference is a tie if the reference gives
    both tokens nearly the same probability.
    """

    num_prompts: int
    num_tokens: int
    num_ties: int
    #: A line for each answer that differs beyond a tie.
    differences: tuple[str, ...]
    #: Over equal tokens, in nats.
    largest_logprob_difference: float

    @property
    def evidence(self) -> str:
        """A sentence for people."""
        if self.num_prompts == 0:
            return "no prompt fits in the context"
        num_equal = self.num_prompts - self.num_ties - len(self.differences)
        parts = [
            f"{num_equal} of {self.num_prompts} answers are equal token for token, "
            f"{self.num_tokens} tokens compared, log-probabilities within "
            f"{self.largest_logprob_difference:.2g} nats"
        ]
        if self.num_ties:
            parts.append(f"{self.num_ties} differ at a tie")
        return "; ".join([*parts, *self.differences[:3]])


def compare(
    reference: Sequence[ForeignAnswer], others: Sequence[GreedyAnswer], tie_nats: float
) -> GreedyComparison:
    """Return the comparison; differences of up to `tie_nats` are ties, and with 0 none is."""
    differences, num_ties, num_tokens, largest = [], 0, 0, 0.0
    for number, (one, other) in enumerate(zip(reference, others, strict=True), 1):
        same = _num_equal(one.token_ids, other.token_ids)
        num_tokens += same
        pairs = zip(one.logprobs[:same], other.logprobs[:same], strict=True)
        largest = max([largest, *(abs(a - b) for a, b in pairs)])
        if one.token_ids == other.token_ids:
            continue
        gap = _gap(one, other, same)
        if gap is not None and gap <= tie_nats:
            num_ties += 1
            continue
        shown = "not among the most probable" if gap is None else f"{gap:.3g} nats less probable"
        differences.append(f"prompt {number} differs at token {same}: the other token is {shown}")
    return GreedyComparison(len(reference), num_tokens, num_ties, tuple(differences), largest)


def _num_equal(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    different = (at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(different, min(len(a), len(b)))


def _gap(reference: ForeignAnswer, other: GreedyAnswer, at: int) -> float | None:
    """Return how much less probable the other token is to the reference, in nats."""
    if at >= len(reference.top) or at >= len(other.token_ids):
        return None
    chances = dict(reference.top[at])
    found = chances.get(other.token_ids[at])
    return None if found is None else reference.top[at][0][1] - found
