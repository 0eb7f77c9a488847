"""Raw prompts begin as the model's training texts did, on tokenizers of three kinds."""

import pytest
from tokenizers.processors import TemplateProcessing
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.text.first_token import with_first_token
from assay_trainer.learner.network.model import train_tokenizer
from tests.support.policies import TEXTS, make_llama_tokenizer


def plain(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def test_llamas_first_token_is_put_before_a_text_once() -> None:
    tokenizer = make_llama_tokenizer()
    first = tokenizer.bos_token_id
    ids = plain(tokenizer, "solve(x)")
    assert ids[0] != first
    assert with_first_token(tokenizer, ids) == [first, *ids] == tokenizer.encode("solve(x)")
    begun = plain(tokenizer, f"{tokenizer.bos_token}solve(x)")
    assert with_first_token(tokenizer, begun) == [first, *ids], "a text that has it already"


@pytest.mark.parametrize("name", [None, "<|endoftext|>"], ids=["as Qwen", "as GPT-2"])
def test_a_tokenizer_that_puts_none_gets_none(name: str | None) -> None:
    """GPT-2's has such a token, and puts it nowhere."""
    tokenizer = train_tokenizer(TEXTS, 320)
    tokenizer.bos_token = name
    ids = plain(tokenizer, "solve(x)")
    assert with_first_token(tokenizer, ids) == ids


def test_a_token_put_at_the_end_is_left_out() -> None:
    """It would end the prompt."""
    tokenizer = make_llama_tokenizer()
    first, end = tokenizer.bos_token, tokenizer.eos_token
    ends = [(first, tokenizer.bos_token_id), (end, tokenizer.eos_token_id)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{first} $A {end}", special_tokens=ends
    )
    ids = plain(tokenizer, "solve(x)")
    assert with_first_token(tokenizer, ids) == [tokenizer.bos_token_id, *ids]
