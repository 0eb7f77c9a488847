"""Reasons why a text of a model does not become a row."""

import re
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from assay_shared.text.half_characters import is_utf8
from assay_shared.text.template_tokens import has_template_token
from assay_trainer.data.words import has_words, ngrams, words_of
from assay_trainer.demonstrations.instructions.given.instructions_config import FiltersConfig

_RUN_WORDS = 4
#: Shorter texts may say a thing twice.
_LEAST_WORDS = 24
#: Text without spaces has few words: it is a repetition if it can be packed to this share.
_LEAST_PACKED, _PACKED = 400, 0.06
_VERBS = (
    "help|assist|provide|do|answer|fulfil|fulfill|comply|create|write|generate|access|complete|"
    "support|continue|discuss|engage|give|offer|respond"
)
_REFUSAL = re.compile(
    rf"\W*(?:(?:i(?:['\u2019]m| am) )?(?:so |very )?sorry\b"
    rf"|i apologi[sz]e\b|unfortunately,? i\b"
    rf"|i (?:can(?:not|['\u2019]t)|can not|won['\u2019]t|will not)(?: \w+)? (?:{_VERBS})\b"
    rf"|i(?:['\u2019]m| am) (?:not able|unable)\b"
    rf"|as an? (?:ai|artificial|large language|language) |i(?:['\u2019]m| am) (?:just |only )?an? "
    rf"(?:ai|artificial|large language|language)\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Filters:
    """The filters of a file, with the names of the model's own control tokens."""

    config: FiltersConfig
    control_tokens: Collection[str] = ()

    def of_instruction(self, text: str) -> str | None:
        """Return why a text cannot be an instruction; None if it is one."""
        reason = self.of_any(text)
        if reason is not None:
            return reason
        num_words = len(words_of(text))
        if num_words < self.config.min_instruction_words:
            return "too_short"
        return "too_long" if num_words > self.config.max_instruction_words else self._loop(text)

    def of_answer(self, text: str, is_cut: bool) -> str | None:
        """Return why a text cannot be an answer; None if it is one."""
        if len(text) > self.config.max_answer_characters:
            return "too_long"
        reason = self.of_any(text)
        if reason is not None:
            return reason
        if is_cut:
            return "no_answer_end"
        if len(text.strip()) < self.config.min_answer_characters:
            return "too_short"
        return "refused" if _REFUSAL.match(text) else self._loop(text)

    def of_any(self, text: str) -> str | None:
        """Return why a text must not go into a prompt or a row."""
        if not is_utf8(text):
            return "not_unicode"
        if not text.strip():
            return "empty"
        is_control = has_template_token(text) or any(one in text for one in self.control_tokens)
        return "control_token" if is_control else None

    def _loop(self, text: str) -> str | None:
        if not has_words(text) and len(set(text)) == 1:
            return "repeated"
        is_loop = repeated_share(words_of(text)) > self.config.max_repeated
        return "repeated" if is_loop or _packs(text) else None


def repeated_share(words: list[str]) -> float:
    """Return the share of runs of four words that stood there before; 0 of a short text."""
    if len(words) < _LEAST_WORDS:
        return 0.0
    runs = list(ngrams(words, _RUN_WORDS))
    return 1 - len(set(runs)) / len(runs)


def _packs(text: str) -> bool:
    content = text.encode()
    return len(content) >= _LEAST_PACKED and len(zlib.compress(content)) < _PACKED * len(content)


def told_tokens(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of control tokens that no ordinary text has: not single signs or spaces."""
    return tuple(sorted({one for one in names if len(one.strip()) > 2}))
