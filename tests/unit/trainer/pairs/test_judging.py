"""What two orders of a judge come to."""

import pytest

from assay_shared.errors import JudgeFault
from assay_trainer.pairs.judging import JudgedPair, LabelFinding, judged_numbers, read_choices


@pytest.mark.parametrize(
    ("choices", "agreement", "num_first", "num_choices"),
    [
        ((0, 0), "agrees", 1, 2),
        ((1, 1), "disagrees", 1, 2),
        ((0, 1), "undecided", 2, 2),
        ((1, 0), "undecided", 0, 2),
        ((0, None), "undecided", 1, 1),
        ((None, None), "undecided", 0, 0),
    ],
)
def test_both_orders_must_choose_the_same_answer(
    choices: tuple[int | None, ...], agreement: str, num_first: int, num_choices: int
) -> None:
    assert read_choices(choices) == JudgedPair(LabelFinding(agreement), num_first, num_choices)


def test_one_order_alone_is_a_fault() -> None:
    with pytest.raises(JudgeFault, match="1 choices"):
        read_choices((0,))


def test_a_judge_that_takes_the_first_place_is_found() -> None:
    numbers = judged_numbers([read_choices((0, 1))] * 40)
    assert numbers["first_choice"]["value"] == 1
    assert numbers["first_choice"]["low"] > 0.9
    assert numbers["label_agreement"] is None, "it decides no pair"
    fair = judged_numbers([read_choices((0, 0))] * 30 + [read_choices((1, 1))] * 10)
    assert fair["first_choice"]["low"] < 0.5 < fair["first_choice"]["high"]
    assert fair["label_agreement"]["value"] == 0.75
    assert fair["judged"] == {"agrees": 30, "disagrees": 10, "undecided": 0, "failed": 0}
