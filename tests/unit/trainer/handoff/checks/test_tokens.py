"""Greedy answers compared: equal, at a tie, or different."""

import math

import pytest

from assay_trainer.handoff.checks.tokens import GreedyAnswer, GreedyComparison, compare
from assay_trainer.handoff.engines.answers import ForeignAnswer

REFERENCE = ForeignAnswer(
    prompt_ids=(9,),
    token_ids=(1, 2, 3),
    logprobs=(-0.1, -0.2, -0.7),
    top=(((1, -0.1), (5, -3.0)), ((2, -0.2), (6, -2.0)), ((3, -0.7), (4, -0.71))),
    ended=False,
)


def against(*ids: int, tie_nats: float = 0.0) -> GreedyComparison:
    return compare([REFERENCE], [GreedyAnswer(ids, (-0.1, -0.25, -0.7)[: len(ids)])], tie_nats)


def test_equal_answers_agree_and_tell_how_far_their_log_probabilities_are() -> None:
    found = against(1, 2, 3)
    assert (found.differences, found.num_ties, found.num_tokens) == ((), 0, 3)
    assert math.isclose(found.largest_logprob_difference, 0.05)
    assert found.evidence.startswith("1 of 1 answers are equal token for token, 3 tokens compared")


def test_without_a_tolerance_every_other_token_is_a_difference() -> None:
    found = against(1, 2, 4)
    assert found.differences == (
        "prompt 1 differs at token 2: the other token is 0.01 nats less probable",
    )


def test_nearly_equal_tokens_are_a_tie_within_the_tolerance() -> None:
    assert against(1, 2, 4, tie_nats=0.02).num_ties == 1
    assert against(1, 6, 3, tie_nats=0.02).differences


@pytest.mark.parametrize("ids", [(1, 2, 77), (1, 2), (1, 2, 3, 4)])
def test_an_improbable_token_or_another_length_is_no_tie(ids: tuple[int, ...]) -> None:
    assert against(*ids, tie_nats=100.0).differences
