"""Instructions about single words, letters, case, language and punctuation."""

import math
import re
from typing import ClassVar

from pydantic import Field

from assay_reward.answers.constraints.constraint import Constraint, CountRelation
from assay_reward.answers.language import language_of


def num_found(words: str, text: str) -> int:
    """Return the number of occurrences in the text, as whole words and in any case."""
    return len(re.findall(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE))


class Existence(Constraint):
    """All keywords, even within other words."""

    name: ClassVar[str] = "keywords:existence"
    keywords: tuple[str, ...] = Field(min_length=1)

    def holds(self, text: str) -> bool:
        folded = text.casefold()
        return all(word.casefold() in folded for word in self.keywords)


class Frequency(Constraint):
    """A required number of occurrences of a keyword."""

    name: ClassVar[str] = "keywords:frequency"
    keyword: str = Field(min_length=1)
    frequency: int = Field(ge=0)
    relation: CountRelation

    def holds(self, text: str) -> bool:
        count = text.casefold().count(self.keyword.casefold())
        return self.relation.holds(count, self.frequency)


class ForbiddenWords(Constraint):
    """No forbidden words, except within other words."""

    name: ClassVar[str] = "keywords:forbidden_words"
    forbidden_words: tuple[str, ...] = Field(min_length=1)

    def holds(self, text: str) -> bool:
        return not any(num_found(word, text) for word in self.forbidden_words)


class LetterFrequency(Constraint):
    """A required number of occurrences of a letter, in either case."""

    name: ClassVar[str] = "keywords:letter_frequency"
    letter: str = Field(min_length=1, max_length=1)
    let_frequency: int = Field(ge=0)
    let_relation: CountRelation

    def holds(self, text: str) -> bool:
        return self.let_relation.holds(text.lower().count(self.letter.lower()), self.let_frequency)


class ResponseLanguage(Constraint):
    """A single language for the whole text (ISO 639-1)."""

    name: ClassVar[str] = "language:response_language"
    reads: ClassVar[float] = math.inf
    language: str = Field(pattern=r"^[a-z]{2}$")

    def holds(self, text: str) -> bool:
        return language_of(text) == self.language


class CapitalWordFrequency(Constraint):
    """A required number of words in capitals."""

    name: ClassVar[str] = "change_case:capital_word_frequency"
    capital_frequency: int = Field(ge=0)
    capital_relation: CountRelation

    def holds(self, text: str) -> bool:
        count = sum(word.isupper() for word in re.findall(r"[\w'-]+", text))
        return self.capital_relation.holds(count, self.capital_frequency)


class EnglishCapital(Constraint):
    """English, all in capitals."""

    name: ClassVar[str] = "change_case:english_capital"
    reads: ClassVar[float] = math.inf

    def holds(self, text: str) -> bool:
        return text.isupper() and language_of(text.lower()) == "en"


class EnglishLowercase(Constraint):
    """English, without a capital."""

    name: ClassVar[str] = "change_case:english_lowercase"
    reads: ClassVar[float] = math.inf

    def holds(self, text: str) -> bool:
        return text.islower() and language_of(text) == "en"


class NoComma(Constraint):
    """A text without commas."""

    name: ClassVar[str] = "punctuation:no_comma"

    def holds(self, text: str) -> bool:
        return "," not in text


KINDS: tuple[type[Constraint], ...] = (
    Existence,
    Frequency,
    ForbiddenWords,
    LetterFrequency,
    ResponseLanguage,
    CapitalWordFrequency,
    EnglishCapital,
    EnglishLowercase,
    NoComma,
)
