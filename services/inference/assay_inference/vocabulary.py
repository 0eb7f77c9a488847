"""Tokenizer, chat template and what bounds an answer: what of a checkpoint needs no network."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay_inference import conversation
from assay_shared.errors import InvalidInput, WeightsRefused
from assay_shared.types import Message, SamplingParams

if TYPE_CHECKING:  # only a type: it takes seconds to import
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

_SHORT_TEXT = "What is 7 + 5?"


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

    def check_usable(self, folder: Path) -> None:
        """Check that texts become ids of this model, and ids texts.

        Raises:
            WeightsRefused: texts become nothing, or ids beyond those that the model has.
        """
        ids = self.encode(_SHORT_TEXT)
        if not ids or not self.decode(ids).strip():
            raise WeightsRefused(
                f"{folder} has no tokenizer that makes tokens of a text",
                hint="save the tokenizer beside the weights: tokenizer.json, or tokenizer.model",
            )
        # A library's class may add special tokens of its own to a tokenizer that has none: they
        # count where a prompt has them.
        vocabulary = self.tokenizer.get_vocab()
        special = set(self.tokenizer.all_special_ids)
        usual = [one for one in vocabulary.values() if one not in special]
        largest = max([*usual, *ids, *self._chat_ids()])
        if largest >= self.size:
            raise WeightsRefused(
                f"the tokenizer of {folder} has token ids up to {largest}, and the model ends at "
                f"{self.size - 1}",
                hint="it is another model's tokenizer, or the embedding was not resized",
            )
        if beyond := sorted(end for end in self.end_ids if not 0 <= end < self.size):
            raise WeightsRefused(
                f"{folder} ends answers with the token {beyond[0]}, and the model ends at "
                f"{self.size - 1}"
            )

    def _chat_ids(self) -> list[int]:
        """Return the ids of a short chat; none where there is no template that takes one."""
        try:
            return self.encode_chat((Message(role="user", content=_SHORT_TEXT),))
        except InvalidInput:
            return []

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def encode_chat(self, messages: tuple[Message, ...]) -> list[int]:
        return conversation.encode(self.tokenizer, messages)

    def encode_turns(
        self, turns: list[conversation.Turn], tools: list[conversation.Turn]
    ) -> list[int]:
        return conversation.encode_turns(self.tokenizer, turns, tools)

    def template_knows(self, word: str) -> bool:
        """Whether the chat template, where there is one, has this word in it."""
        return word in str(self.tokenizer.chat_template or "")

    def encode_further(self, token_ids: list[int], messages: tuple[Message, ...]) -> list[int]:
        return conversation.encode_further(self.tokenizer, token_ids, messages, self.end_ids)

    def decode(self, token_ids: list[int]) -> str:
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True))

    def check_fits(self, prompt: list[int], sampling: SamplingParams) -> None:
        """Raises InvalidInput if the prompt and `max_tokens` do not fit this model."""
        if not all(0 <= token_id < self.size for token_id in prompt):
            raise InvalidInput(f"ids must be between 0 and {self.size - 1}", field="token_ids")
        room = max(self.max_length - len(prompt), 0)
        if sampling.max_tokens > room:
            raise InvalidInput(
                f"a prompt of {len(prompt)} tokens leaves room for {room} in a context of "
                f"{self.max_length}, not for {sampling.max_tokens}",
                field="sampling.max_tokens",
            )
