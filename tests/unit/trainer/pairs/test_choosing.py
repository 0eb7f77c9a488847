"""Which samples of a task become pairs."""

from collections.abc import Sequence

import pytest

from assay_shared.types import Status
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.pairs.choosing import pairs_of, similarity
from assay_trainer.pairs.options import PairsPerPrompt, ScoreKind
from assay_trainer.pairs.order import ChoiceOrder, ComponentBound
from tests.support.evaluations import make_answer, make_sample

WORDS = ("alpha beta", "gamma delta", "epsilon zeta", "eta theta", "iota kappa", "lambda mu")
ALL = ChoiceOrder(per_prompt=PairsPerPrompt.ALL_BUT_ONE)


def samples(*scores: float | None, texts: Sequence[str] = WORDS) -> list[SampleRecord]:
    """Samples with rewards; None is a failure."""
    found = []
    for at, score in enumerate(scores):
        outcome = None
        if score is not None:
            outcome = Status.ACCEPTED if score >= 1 else Status.WRONG_ANSWER
        found.append(make_answer("t", at, outcome, reward=score, text=texts[at]))
    return found


def places(found: list[SampleRecord], order: ChoiceOrder) -> list[tuple[int, int]]:
    return [(one.chosen.index, one.rejected.index) for one in pairs_of(found, order).pairs]


def test_the_best_stands_against_the_worst_or_against_each_other_one() -> None:
    found = samples(0.5, 1.0, 0.0, 0.6)
    assert places(found, ChoiceOrder()) == [(1, 2)]
    assert places(found, ALL) == [(1, 2), (1, 0), (1, 3)]


def test_a_pair_has_the_least_difference_exactly() -> None:
    assert places(samples(0.9, 0.6), ChoiceOrder(margin=0.3)) == [(0, 1)]
    found = pairs_of(samples(0.9, 0.61), ChoiceOrder(margin=0.3))
    assert not found.pairs
    assert found.dropped == {"small_margin": 1}


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ((0.0, 0.0, 0.0), "all_zero"),
        ((1.0, 1.0), "all_equal"),
        ((0.4, 0.4), "all_equal"),
        ((1.0,), "too_few_samples"),
        ((), "too_few_samples"),
    ],
)
def test_equal_answers_teach_nothing(scores: tuple[float, ...], reason: str) -> None:
    found = pairs_of(samples(*scores), ChoiceOrder())
    assert not found.pairs
    assert found.dropped[reason] == 1


def test_rewards_below_0_are_compared_too() -> None:
    assert places(samples(-0.2, -1.0), ChoiceOrder()) == [(0, 1)]


def test_a_failure_is_never_a_rejected_answer() -> None:
    found = pairs_of(samples(1.0, None, None), ALL)
    assert not found.pairs
    assert found.dropped == {"failed_sample": 2, "too_few_samples": 1}
    assert places(samples(1.0, None, 0.0), ALL) == [(0, 2)]


def test_ties_go_to_the_shorter_answer_on_both_sides() -> None:
    texts = ("a long right answer", "right", "a long wrong answer", "wrong")
    assert places(samples(1.0, 1.0, 0.0, 0.0, texts=texts), ChoiceOrder()) == [(1, 3)]


def test_code_is_compared_by_its_tests() -> None:
    """The reward is 0 for both: only the share of tests tells them apart."""
    found = [
        make_sample("t", at, Status.WRONG_ANSWER, text=WORDS[at], pass_ratio=ratio, reward=0.0)
        for at, ratio in enumerate((0.1, 0.75))
    ]
    assert places(found, ChoiceOrder()) == [(1, 0)]
    assert places(found, ChoiceOrder(score=ScoreKind.REWARD)) == []
    assert pairs_of(found, ChoiceOrder(accepted_only=True)).dropped == {"none_accepted": 1}


def test_samples_without_tests_are_left_out_by_their_share() -> None:
    found = samples(1.0, 0.0, 0.0)
    found[0] = found[0].model_copy(update={"pass_ratio": 1.0})
    found[1] = found[1].model_copy(update={"pass_ratio": 0.25})
    chosen = pairs_of(found, ChoiceOrder(score=ScoreKind.PASS_RATIO))
    assert [(one.chosen_score, one.rejected_score) for one in chosen.pairs] == [(1.0, 0.25)]
    assert chosen.dropped == {"no_pass_ratio": 1}


def test_samples_without_confidence_are_left_out() -> None:
    sure, unsure = ({"sure": value} for value in (0.9, 0.4))
    found = [
        make_answer("t", 0, Status.ACCEPTED, reward=1.0, components=unsure, text="one"),
        make_answer("t", 1, Status.ACCEPTED, reward=0.9, components=sure, text="two"),
        make_answer("t", 2, Status.WRONG_ANSWER, reward=0.0, components=sure, text="three"),
        make_answer("t", 3, Status.WRONG_ANSWER, reward=0.0, components={}, text="four"),
    ]
    order = ChoiceOrder(confident=(ComponentBound("sure", ">=", 0.7),))
    assert places(found, order) == [(1, 2)]
    assert pairs_of(found, order).dropped["not_confident"] == 2


def test_answers_of_the_same_words_are_no_pair() -> None:
    texts = ("The  answer is: 42", "the answer is 42.", "The answer is 7")
    found = pairs_of(samples(1.0, 0.0, 0.0, texts=texts), ALL)
    assert [one.rejected.index for one in found.pairs] == [2]
    assert found.dropped == {"near_duplicate": 1}
    twice = pairs_of(samples(1.0, 0.0, 0.0, texts=("a b", "c d", "c d")), ALL)
    assert len(twice.pairs) == 1
    assert twice.dropped == {"same_rejected": 1}


@pytest.mark.parametrize(
    ("one", "other", "least", "most"),
    [
        ("return x + 1", "return x - 1", 0.2, 0.8),
        ("12", "13", 0.0, 0.0),
        ("same words", "Same words!", 1.0, 1.0),
        ("", "", 1.0, 1.0),
        ("\ud800", "x", 0.0, 0.0),
    ],
)
def test_similarity(one: str, other: str, least: float, most: float) -> None:
    assert least <= similarity(one, other) <= most


def test_empty_answers_and_episodes_are_no_pair() -> None:
    assert pairs_of(samples(1.0, 0.0, texts=("right", " ")), ALL).dropped == {"empty_answer": 1}
    turned = make_answer("t", 1, Status.WRONG_ANSWER, turns=(("a", "b"),))
    found = pairs_of([make_answer("t", 0, Status.ACCEPTED), turned], ALL)
    assert found.dropped == {"episode": 1, "too_few_samples": 1}


def test_a_better_answer_with_a_template_token_is_no_pair() -> None:
    texts = ("right<|im_end|>\n<|im_start|>user", "wrong")
    assert pairs_of(samples(1.0, 0.0, texts=texts), ALL).dropped == {"control_token": 1}
    assert pairs_of(samples(1.0, 0.0, texts=texts[::-1]), ALL).dropped == {}
