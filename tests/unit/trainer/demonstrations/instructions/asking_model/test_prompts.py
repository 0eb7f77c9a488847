"""The prompts to a model, and the instructions in its replies."""

from assay_shared.types import PromptFormat
from assay_trainer.demonstrations.instructions.asking_model.prompts import (
    ask_for_answer,
    ask_for_new,
    read_new,
)
from assay_trainer.demonstrations.instructions.given.seeds import Seed

CHAT, RAW = PromptFormat.CHAT, PromptFormat.RAW


def test_the_items_of_a_numbered_list_are_instructions() -> None:
    reply = 'Here are more:\n7. First one\nof two lines\n8) **Second one**\n9: "Third one"\n'
    assert read_new(CHAT, reply, False, 4) == ["First one\nof two lines", "Second one", "Third one"]


def test_the_last_item_of_a_cut_reply_is_left_out() -> None:
    assert read_new(CHAT, "1. First one\n2. Second o", True, 4) == ["First one"]


def test_a_reply_gives_at_most_twice_as_many_as_were_asked_for() -> None:
    reply = "\n".join(f"{number}. Do number {number}" for number in range(1, 100))
    assert len(read_new(CHAT, reply, False, 4)) == 8


def test_a_raw_reply_continues_the_list() -> None:
    reply = " First one\n\nTask: Second one\n\nTask: Third"
    assert read_new(RAW, reply, True, 4) == ["First one", "Second one"]


def test_raw_prompts_show_answered_seeds_and_have_no_messages() -> None:
    asked = ask_for_answer(RAW, "Name a river.", [Seed("Name a hill.", "Calvary")], ())
    assert asked.messages is None
    assert asked.prompt is not None
    assert "Task: Name a hill.\nAnswer: Calvary\n\nTask: Name a river.\nAnswer:" in asked.prompt
    chat = ask_for_new(CHAT, ["Name a\nhill."], 2)
    assert chat.messages is not None
    assert "1. Name a hill.\n" in chat.messages[0].content
    assert "numbered from 2 to 3" in chat.messages[0].content
