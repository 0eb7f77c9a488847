"""The stranger's program: what it finds in a tokenizer."""

from assay_trainer.handoff.engines.transformers_child import _ordinary
from tests.support.policies import make_llama_tokenizer


def test_end_tokens_that_are_words_of_texts_are_told_from_special_ones() -> None:
    tokenizer = make_llama_tokenizer()
    word = tokenizer.encode("solve", add_special_tokens=False)[0]
    text = tokenizer.convert_ids_to_tokens(word)
    assert _ordinary(tokenizer, {tokenizer.eos_token_id, word, 10**6}) == {word: text}
