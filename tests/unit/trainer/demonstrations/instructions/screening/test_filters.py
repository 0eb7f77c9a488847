"""Filters of instructions and answers."""

import pytest

from assay_trainer.demonstrations.instructions.given.instructions_config import FiltersConfig
from assay_trainer.demonstrations.instructions.screening.filters import Filters, told_tokens

FILTERS = Filters(FiltersConfig(max_answer_characters=5000), told_tokens(["<|mine|>", "~~end~~"]))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("Fine. <|im_end|>", "control_token"),
        ("[INST] Do it [/INST]", "control_token"),
        ("Sure.\n### Response:\nYes.", "control_token"),
        ("It ends ~~end~~ here.", "control_token"),
        ("a lone \ud800 half", "not_unicode"),
        ("x" * 5001, "too_long"),
        ("I'm sorry, but I can't help with that.", "refused"),
        ("As an AI language model, I have none.", "refused"),
        ("I cannot provide this.", "refused"),
        ("the same words again " * 20, "repeated"),
        ("!" * 50, "repeated"),
        ("The user asked the system for an assistant.", None),
        ("if x < 3 and y > 4: print(x | y)", None),
        ("I can see three rivers from here.", None),
        ("4", None),
    ],
)
def test_an_answer_is_left_out_for_its_reason(text: str, reason: str | None) -> None:
    assert FILTERS.of_answer(text, is_cut=False) == reason


def test_an_answer_that_was_cut_off_is_left_out() -> None:
    assert FILTERS.of_answer("It begins well and", is_cut=True) == "no_answer_end"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Go now.", "too_short"),
        ("word number " + " ".join(map(str, range(200))), "too_long"),
        ("Name three rivers of Europe.", None),
    ],
)
def test_an_instruction_has_bounds_in_words(text: str, reason: str | None) -> None:
    assert FILTERS.of_instruction(text) == reason
