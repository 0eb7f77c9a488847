"""Replies that look like text and say nothing."""

import time

import pytest

from assay_shared.errors import ModelFault
from assay_shared.providers.endpoint import EndpointReply
from assay_shared.providers.reply import Truncated, complete_text
from assay_shared.providers.state.ledger import Usage
from assay_shared.text.blank import says_nothing

BLANK = (
    *("", " \n\t", "\u200b", "\ufeff", "\u00ad", "\u2800", "\x00", "\u3164 \u2060", "\u00a0"),
    *("\ufe0f", "\u202e\u202c", "```\n```", "```python\n\n```", "~~~\r\n~~~", "``````", "\ud800"),
    *("<think>a", "<think>a</think>", "<think>a</think>\n<think>b", "a</think>\n\u200b"),
)
SAID = (
    "0",
    "-",
    "?",
    "\u200b42",
    "```\n42\n```",
    "```42\n```",
    "é",
    "答",
    "<think>a</think>7",
    "∅",
)


@pytest.mark.parametrize("text", BLANK)
def test_a_reply_without_anything_to_read_is_no_answer(text: str) -> None:
    assert says_nothing(text)
    with pytest.raises(ModelFault) as raised:
        complete_text(EndpointReply(text, 0, "stop", Usage(1, 1, False)))
    assert isinstance(raised.value, Truncated)


@pytest.mark.parametrize("text", SAID)
def test_short_replies_say_something(text: str) -> None:
    assert not says_nothing(text)


def test_the_work_grows_with_the_length_alone() -> None:
    began = time.process_time()
    for text in ("\u200b" * 200_000, "```\n" * 50_000, "`" * 200_000 + "1 x", " " * 200_000):
        says_nothing(text)
    assert time.process_time() - began < 2
