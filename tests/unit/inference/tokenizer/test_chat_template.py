"""Further turns after a reply with known ids, on templates of two families."""

import pytest
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_inference.tokenizer.chat_template import (
    Turn,
    encode,
    encode_text,
    go_on,
    render_further,
    render_turns,
)
from assay_shared.errors import InvalidInput
from assay_shared.types import Message
from assay_trainer.learner.network.model import CHAT_TEMPLATE, train_tokenizer
from tests.support.policies import TEXTS

#: As Qwen's: a line break stands after the token that ends a turn.
WITH_LINE_BREAKS = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
FIRST = (Message(role="user", content="Write solve(x)."),)
NEXT = (Message(role="user", content="Return x plus 3."),)


@pytest.fixture(params=[CHAT_TEMPLATE, WITH_LINE_BREAKS], ids=["ours", "line_breaks"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    tokenizer = train_tokenizer(TEXTS, 320)
    tokenizer.chat_template = request.param
    return tokenizer


def encode_further(
    tokenizer: PreTrainedTokenizerBase,
    token_ids: list[int],
    messages: tuple[Message, ...],
    end_ids: list[int],
) -> list[int]:
    """Return the ids of a continued conversation, as the service makes them in two steps."""
    further = encode_text(tokenizer, render_further(tokenizer, messages))
    return go_on(token_ids, further, end_ids)


def ends(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    return [int(tokenizer.eos_token_id)]


def test_a_conversation_in_parts_is_the_conversation_as_a_whole(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    said = "def solve(x):\n    return x"
    reply = tokenizer.encode(said, add_special_tokens=False)
    start = encode(tokenizer, FIRST)
    whole = encode(tokenizer, [*FIRST, Message(role="assistant", content=said), *NEXT])
    ended = encode_further(tokenizer, [*start, *reply, *ends(tokenizer)], NEXT, ends(tokenizer))
    cut_off = encode_further(tokenizer, [*start, *reply], NEXT, ends(tokenizer))
    assert ended == cut_off == whole


def test_ids_that_were_sampled_never_change(tokenizer: PreTrainedTokenizerBase) -> None:
    """A policy may spell a word in other pieces than its tokenizer would."""
    letters = [tokenizer.encode(one, add_special_tokens=False)[0] for one in "return"]
    assert letters != tokenizer.encode("return", add_special_tokens=False)
    sent = [*encode(tokenizer, FIRST), *letters, *ends(tokenizer)]
    ids = encode_further(tokenizer, sent, NEXT, ends(tokenizer))
    assert ids[: len(sent)] == sent
    assert len(ids) > len(sent)


def test_a_template_that_hides_replies_is_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = "{{ messages[0].content }}"
    with pytest.raises(InvalidInput, match="then: the chat template does not show replies"):
        encode_further(tokenizer, [1], NEXT, [0])
    tokenizer.chat_template = None
    with pytest.raises(InvalidInput, match="no chat template"):
        encode(tokenizer, NEXT)


def test_a_tool_that_the_template_would_drop_is_refused(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    tools: list[Turn] = [
        {"type": "function", "function": {"name": name, "parameters": {}}}
        for name in ("add", "größe")
    ]
    asked: list[Turn] = [{"role": "user", "content": "x"}]
    shown = "{{ tools | tojson }}{% for message in messages %}{{ message.content }}{% endfor %}"
    tokenizer.chat_template = shown
    assert "add" in render_turns(tokenizer, asked, tools)
    tokenizer.chat_template = shown.replace("tools |", "tools[:1] |")
    with pytest.raises(InvalidInput, match=r"tools\.1: .* does not show the tool 'größe'"):
        render_turns(tokenizer, asked, tools)
    tokenizer.chat_template = "{% if tools %}{% endif %}{{ messages[0].content }}"
    with pytest.raises(InvalidInput, match=r"tools\.0: "):
        render_turns(tokenizer, asked, tools)
