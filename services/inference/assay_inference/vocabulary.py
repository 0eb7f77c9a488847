"""Tokenizer, chat template and what bounds an answer: what of a checkpoint needs no network."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay_inference import conversation
from assay_shared.errors import InvalidInput
from assay_shared.types import Message, SamplingParams

if TYPE_CHECKING:  # only a type: it takes seconds to import
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Vocabulary:
    """Turns texts into token ids and back; `max_length` is prompt and answer together."""

    tokenizer: "PreTrainedTokenizerBase"
    size: int
    end_ids: frozenset[int]
    max_length: int

    @property
    def rules(self) -> object:
        """All by which texts become ids: pieces, merges, special tokens, normalisation."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            return self.tokenizer.get_vocab(), self.tokenizer.special_tokens_map
        rules: dict[str, object] = json.loads(backend.to_str())
        # Settings of one call, not of the vocabulary.
        return {key: value for key, value in rules.items() if key not in ("padding", "truncation")}

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def encode_chat(self, messages: tuple[Message, ...]) -> list[int]:
        return conversation.encode(self.tokenizer, messages)

    def template_knows(self, word: str) -> bool:
        """Whether the chat template, where there is one, has this word in it."""
        return word in str(self.tokenizer.chat_template or "")

    def decode(self, token_ids: list[int]) -> str:
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True))

    def check_fits(self, prompt: list[int], sampling: SamplingParams) -> None:
        """Raises InvalidInput if the prompt and `max_tokens` do not fit this model."""
        room = max(self.max_length - len(prompt), 0)
        if sampling.max_tokens > room:
            raise InvalidInput(
                f"a prompt of {len(prompt)} tokens leaves room for {room} in a context of "
                f"{self.max_length}, not for {sampling.max_tokens}",
                field="sampling.max_tokens",
            )
        if prompt and not (min(prompt) >= 0 and max(prompt) < self.size):
            raise InvalidInput(f"ids must be between 0 and {self.size - 1}", field="token_ids")
