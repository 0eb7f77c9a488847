"""Revised answers that repeat their request answer nothing."""

import pytest

from assay_trainer.demonstrations.instructions.answering import _repeats

REQUEST = "Rewrite the answer so that it does all that the task asks for."


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        (REQUEST, REQUEST, True),
        (f"Sure! {REQUEST} Here it is.", REQUEST, True),
        (REQUEST.upper(), REQUEST, True),
        ("Plant tomatoes, beans and peas.", REQUEST, False),
        ("It is good.", "It is good.", False),  # short texts are in ordinary answers
    ],
)
def test_a_repeated_request_is_found(text: str, said: str, expected: bool) -> None:
    assert _repeats(text, said) is expected
