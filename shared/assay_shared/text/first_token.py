"""The token that a model's tokenizer puts before a text: Llama's `<|begin_of_text|>`, for one."""

from typing import Any


def with_first_token(tokenizer: Any, token_ids: list[int]) -> list[int]:
    """Return the ids of a raw text, begun as the model saw texts begin in its training.

    Args:
        tokenizer: the model's, of transformers.
        token_ids: the text without added tokens; a first token that it has is not doubled.
    """
    first = tokenizer.bos_token_id
    if first is None or token_ids[:1] == [first] or tokenizer.encode("a")[:1] != [first]:
        return token_ids
    return [first, *token_ids]
