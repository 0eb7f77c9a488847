"""What losses and corrections read of a pack's sampled tokens."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Sampled:
    """The sampled tokens of a pack, one sequence after another."""

    #: Of the trained policy, with a gradient.
    logprobs_L: "Tensor"
    #: Of the policy that the ratio is to: the engine, or with a correction the proximal policy.
    old_logprobs_L: "Tensor"
    advantages_L: "Tensor"
    #: The index of each token's sequence in the pack, ascending.
    sequence_L: "Tensor"

    @property
    def log_ratio_L(self) -> "Tensor":
        return self.logprobs_L - self.old_logprobs_L


def none_of(values_L: "Tensor") -> "Tensor":
    """Return a mask that has none of the tokens."""
    return values_L.new_zeros(values_L.shape).bool()


def sums_of_sequences(values_L: "Tensor", sequence_L: "Tensor") -> "Tensor":
    """Return for each token the sum over its sequence."""
    num = int(sequence_L[-1]) + 1 if len(sequence_L) else 0
    return values_L.new_zeros(num).index_add(0, sequence_L, values_L)[sequence_L]


def lengths_of_sequences(sequence_L: "Tensor") -> "Tensor":
    """Return for each token the number of its sequence's tokens."""
    lengths_S = sequence_L.bincount(minlength=1)
    return lengths_S[sequence_L]


def means_of_sequences(values_L: "Tensor", sequence_L: "Tensor") -> "Tensor":
    """Return for each token the mean over its sequence."""
    return sums_of_sequences(values_L, sequence_L) / lengths_of_sequences(sequence_L)


def sums_from_here(values_L: "Tensor", sequence_L: "Tensor") -> "Tensor":
    """Return for each token the sum over it and the later tokens of its sequence."""
    if not len(values_L):
        return values_L
    before_L = values_L.double().cumsum(0) - values_L
    is_first_L = sequence_L.diff(prepend=sequence_L[:1] - 1) > 0
    # The sum before a sequence's first token, for all of its tokens.
    start_L = before_L[is_first_L][sequence_L - sequence_L[0]]
    whole_L = sums_of_sequences(values_L.double(), sequence_L)
    return (whole_L - (before_L - start_L)).to(values_L.dtype)
