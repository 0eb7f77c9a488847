"""The average of a step's tokens, as the weight of each token: L = sum over tokens of w_t term_t.

average    weight of a token of sequence i            paper
sequence   1 / (S |y_i|)                              GRPO (arXiv 2402.03300, eq. 3)
token      1 / (sum of all |y|)                       DAPO (arXiv 2503.14476, eq. 8)
constant   1 / (S max_tokens)                         Dr. GRPO (arXiv 2503.20783)

|y| is the number of learnt tokens. The weights are made for a whole step, so its division into
packs and over ranks changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AverageRow:
    """An average: the weights of tokens by the lengths of their sequences."""

    name: str
    paper: str
    equation: str
    #: From the lengths of all sequences and `max_tokens` to the weight of a token, by sequence.
    weights: Callable[[Sequence[int], int], list[float]]


def _sequence(lengths_S: Sequence[int], _: int) -> list[float]:
    return [1 / (max(1, length) * len(lengths_S)) for length in lengths_S]


def _token(lengths_S: Sequence[int], _: int) -> list[float]:
    return [1 / max(1, sum(lengths_S))] * len(lengths_S)


def _constant(lengths_S: Sequence[int], max_tokens: int) -> list[float]:
    return [1 / (max(1, len(lengths_S)) * max_tokens)] * len(lengths_S)


AVERAGES = {
    row.name: row
    for row in (
        AverageRow("sequence", "GRPO, arXiv 2402.03300", "1 / (S length)", _sequence),
        AverageRow("token", "DAPO, arXiv 2503.14476", "1 / (sum of all lengths)", _token),
        AverageRow("constant", "Dr. GRPO, arXiv 2503.20783", "1 / (S max_tokens)", _constant),
    )
}
