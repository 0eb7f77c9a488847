"""A checkpoint's tokenizer, chat template and length limits: everything but the neural network."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from assay_inference.tokenizer import chat_template
from assay_shared.errors import InvalidInput, WeightsRefused
from assay_shared.types import Message, SamplingParams

if TYPE_CHECKING:  # only a type: it takes seconds to import
    from llguidance import LLTokenizer
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

_SHORT_TEXT = "What is 7 + 5?"
#: Largest number of top log-probabilities in an answer.
_MAX_TOP_LOGPROBS = 2_000_000


@dataclass(frozen=True)
class PolicyTokenizer:
    """Conversion of texts to token ids and back.

    `size` is the number of token ids; `max_length` limits prompt and answer together.
    """

    tokenizer: "PreTrainedTokenizerBase"
    size: int
    end_ids: frozenset[int]
    max_length: int

    @property
    def rules(self) -> object:
        """All rules from text to ids: pieces, merges, special tokens, normalisation."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            return self.tokenizer.get_vocab(), self.tokenizer.special_tokens_map
        rules: dict[str, object] = json.loads(backend.to_str())
        # These are settings of a call, not of the vocabulary.
        return {key: value for key, value in rules.items() if key not in ("padding", "truncation")}

    def check_usable(self, folder: Path) -> None:
        """Check the conversion of texts to ids of this model and back.

        Raises:
            WeightsRefused: a text gives no ids, or there are ids beyond the model's vocabulary.
        """
        ids = self.encode(_SHORT_TEXT)
        if not ids or not self.decode(ids).strip():
            raise WeightsRefused(
                f"{folder} has no tokenizer that makes tokens of a text",
                hint="save the tokenizer with the weights: tokenizer.json, or tokenizer.model",
            )
        # A library's class may add its own special tokens to a tokenizer without any. Such a token
        # counts only if the chat template names it. The template is not run: it may never end.
        vocabulary = self.tokenizer.get_vocab()
        special = set(self.tokenizer.all_special_ids)
        usual = [one for one in vocabulary.values() if one not in special]
        template = str(self.tokenizer.chat_template or "")
        named = [one for token, one in vocabulary.items() if one in special and token in template]
        largest = max([*usual, *ids, *named])
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

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def encode_chat(self, messages: tuple[Message, ...]) -> list[int]:
        return chat_template.encode(self.tokenizer, messages)

    def template_knows(self, word: str) -> bool:
        """Return True if the model has a chat template and its text contains this word."""
        return word in str(self.tokenizer.chat_template or "")

    def decode(self, token_ids: list[int]) -> str:
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True))

    @cached_property
    def index(self) -> "LLTokenizer":
        """The bytes of each token. Building it takes up to a second: not on an event loop.

        Raises:
            InvalidInput: tokens of this kind of tokenizer cannot be given as bytes.
        """
        from llguidance.hf import from_tokenizer

        try:
            size = max(self.size, len(self.tokenizer))
            return from_tokenizer(
                self.tokenizer,  # type: ignore[arg-type]  # it raises ValueError for other kinds
                size,
                sorted(self.end_ids) or None,
            )
        except ValueError as error:
            raise InvalidInput(f"this model's tokens cannot be given as bytes: {error}") from error

    def bytes_of(self, token_id: int) -> bytes:
        """Return a token's bytes: text, part of a character, or a special token's name."""
        return bytes(self.index.decode_bytes([token_id]))

    def is_special(self, token_id: int) -> bool:
        """Return True if decoded texts leave this token out."""
        return token_id in self._special_ids

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        added = self.tokenizer.added_tokens_decoder
        return frozenset(token_id for token_id, token in added.items() if token.special)

    def room_after(self, prompt: list[int]) -> int:
        """Return the maximum number of tokens of an answer to this prompt."""
        return max(self.max_length - len(prompt), 0)

    def check_ids(self, ids: Iterable[int], field: str) -> None:
        """Raise InvalidInput if an id is outside this model's vocabulary."""
        if not all(0 <= token_id < self.size for token_id in ids):
            raise InvalidInput(f"ids must be between 0 and {self.size - 1}", field=field)

    def check_length(self, prompt: list[int], least: int = 0) -> None:
        """Raise InvalidInput if a prompt leaves no room for `least` tokens in the context."""
        if len(prompt) + least > self.max_length:
            raise InvalidInput(
                f"a prompt of {len(prompt)} tokens leaves no room in a context of "
                f"{self.max_length}",
                field="token_ids",
            )

    def check_fits(self, prompt: list[int], sampling: SamplingParams) -> None:
        """Raise InvalidInput if the prompt or the sampling parameters do not fit this model."""
        if not prompt:
            raise InvalidInput("the prompt, or what its template makes of it, has no tokens")
        self.check_ids(prompt, "token_ids")
        self.check_ids(sampling.stop_token_ids, "sampling.stop_token_ids")
        self.check_ids(sampling.logit_bias, "sampling.logit_bias")
        if sampling.n * sampling.max_tokens * sampling.top_logprobs > _MAX_TOP_LOGPROBS:
            raise InvalidInput(
                f"n times max_tokens times top_logprobs is at most {_MAX_TOP_LOGPROBS}",
                field="sampling.top_logprobs",
            )
        room = self.room_after(prompt)
        if sampling.max_tokens > room:
            raise InvalidInput(
                f"a prompt of {len(prompt)} tokens leaves room for {room} in a context of "
                f"{self.max_length}, not for {sampling.max_tokens}",
                field="sampling.max_tokens",
            )
