"""A percent or degree sign of an answer counts, unless the question asks for it."""

import pytest

from assay_shared.answers.equality import equal_by_proof
from assay_shared.answers.question import asked_for

PERCENT = "There are 25 roses and 75 others. What percentage of flowers are not roses?"
DEGREES = "What is the measure, in degrees, of angle A?"


@pytest.mark.parametrize(
    ("question", "reference", "answer", "right"),
    [
        (PERCENT, "75", "75%", True),
        (PERCENT, "75", r"75\%", True),
        (PERCENT, "75", "75 percent", True),
        (PERCENT, "75", "75", True),
        (PERCENT, "75", "0.75%", False),
        (PERCENT, "75", "25%", False),
        ("What percent of 20 is 5?", "25", "25%", True),
        ("Find the overall percent increase.", "4", r"4\%", True),
        ("The rate is ______%.", "9.5", "9.5%", True),
        ("She gives 20% of her 240 dollars away. How much is left?", "192", "192%", False),
        ("How many apples are left?", "5", "5%", False),
        ("How many apples are left?", "5", "5 percent", False),
        ("How many apples are left?", "5", "5 apples", True),
        ("How heavy is it?", "5", "5 kg", True),
        ("", "5", "5%", False),
        (DEGREES, "36", r"36^\circ", True),
        (DEGREES, "36", r"\frac{\pi}{5}", False),
        (DEGREES, "36", "36", True),
        (DEGREES, r"\frac{45}{2}", r"22.5^\circ", True),
        ("What is the sine of x?", "36", r"36^\circ", False),
        ("", "36", "36 degrees", False),
        (PERCENT, r"75\%", "75", True),
    ],
)
def test_the_sign_belongs_to_the_number_unless_the_question_asks_for_it(
    question: str, reference: str, answer: str, right: bool
) -> None:
    assert equal_by_proof(answer, asked_for(reference, question, answer)) is right
