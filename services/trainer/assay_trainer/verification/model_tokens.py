"""The control tokens of a model, and the ids of a raw text, by the model's own tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from assay_shared.errors import WeightsRefused
from assay_trainer.data.control_tokens import control_tokens
from assay_trainer.data.tokenization import end_ids

#: Some tokenizers add runs of spaces and single signs, which are ordinary text.
_LEAST_CHARACTERS = 2


@dataclass(frozen=True)
class ModelTokens:
    """A model's tokenizer and the ids that end its answers."""

    tokenizer: Any
    end_ids: frozenset[int]

    @property
    def has_template(self) -> bool:
        return self.tokenizer.chat_template is not None

    @cached_property
    def bos(self) -> int | None:
        """The token that the tokenizer puts before each text; None if it puts none."""
        first: int | None = self.tokenizer.bos_token_id
        return first if first is not None and self.tokenizer.encode("a")[:1] == [first] else None

    @cached_property
    def control(self) -> dict[int, str]:
        """The control tokens by id: special ones, ends, and added ones of the chat template.

        The token for unknown text is left out: a raw prompt may hold such a text.
        """
        template = str(self.tokenizer.chat_template or "")
        of_template = {
            number
            for number, token in self.tokenizer.added_tokens_decoder.items()
            if len(str(token).strip()) > _LEAST_CHARACTERS and str(token) in template
        }
        return control_tokens(self.tokenizer, self.end_ids | of_template)

    def own_ids(self, text: str) -> list[int]:
        """Return the ids of a text as the tokenizer has it for training: behind its BOS, if any."""
        ids = list(self.tokenizer.encode(text, add_special_tokens=False))
        if self.bos is None or ids[:1] == [self.bos]:
            return ids
        return [self.bos, *ids]

    def positions_of_control(self, ids: Sequence[int]) -> list[int]:
        """Return the positions of control tokens in a whole input, but for its BOS at the start."""
        start = 1 if self.bos is not None and list(ids[:1]) == [self.bos] else 0
        return [place for place in range(start, len(ids)) if ids[place] in self.control]

    def planted(self) -> int | None:
        """Return a token to plant: of the chat template if it names one; None without tokens."""
        template = str(self.tokenizer.chat_template or "")
        known = sorted(self.control)
        return next(
            (one for one in known if self.control[one] in template), next(iter(known), None)
        )


def read_tokens(folder: Path) -> ModelTokens:
    """Return the tokens of a model's folder.

    Raises:
        WeightsRefused: the folder has no tokenizer that can be read.
    """
    from transformers import AutoTokenizer

    auto: Any = AutoTokenizer
    try:
        tokenizer = auto.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise WeightsRefused(f"the tokenizer of {folder} cannot be read: {error}") from None
    return ModelTokens(tokenizer, end_ids(folder))
