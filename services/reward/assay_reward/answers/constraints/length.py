"""Instructions about the number of words, sentences and paragraphs."""

import re
from typing import ClassVar, Self

from pydantic import Field, model_validator

from assay_reward.answers.constraints.constraint import Constraint, CountRelation

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<![.!?。！？])[.!?。！？]++[\"')\]]*+(?=\s|$)")
#: A full stop after these does not end a sentence.
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|no|fig|approx)|\b[a-z])\.$",
    re.IGNORECASE,
)
_MARK = re.compile(r"[.,?!'\"]")
_MARKDOWN_DIVIDER = re.compile(r"\s?\*\*\*\s?")
_MAX_ABBREVIATION = 12


def num_sentences(text: str) -> int:
    """Return the number of sentences, by closing marks; an open end of a paragraph counts too."""
    count = 0
    for paragraph in re.split(r"\n\n", text):
        rest, last = 0, len(paragraph.rstrip())
        for end in _SENTENCE_END.finditer(paragraph):
            before = paragraph[max(0, end.end() - _MAX_ABBREVIATION) : end.end()]
            if end.group() != "." or not _ABBREVIATION.search(before) or end.end() == last:
                count += 1
                rest = end.end()
        count += bool(_WORD.search(paragraph, rest))
    return count


class NumberSentences(Constraint):
    """A required number of sentences."""

    name: ClassVar[str] = "length_constraints:number_sentences"
    num_sentences: int = Field(ge=0)
    relation: CountRelation

    def holds(self, text: str) -> bool:
        return self.relation.holds(num_sentences(text), self.num_sentences)


class NumberParagraphs(Constraint):
    """An exact number of paragraphs, with *** between them."""

    name: ClassVar[str] = "length_constraints:number_paragraphs"
    num_paragraphs: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        parts = [part.strip() for part in _MARKDOWN_DIVIDER.split(text)]
        if len(parts) > 1 and not parts[0]:
            parts = parts[1:]
        if len(parts) > 1 and not parts[-1]:
            parts = parts[:-1]
        return all(parts) and len(parts) == self.num_paragraphs


class NumberWords(Constraint):
    """A required number of words."""

    name: ClassVar[str] = "length_constraints:number_words"
    num_words: int = Field(ge=0)
    relation: CountRelation

    def holds(self, text: str) -> bool:
        return self.relation.holds(len(_WORD.findall(text)), self.num_words)


class NthParagraphFirstWord(Constraint):
    """An exact number of paragraphs, divided by empty lines, and the first word of a paragraph."""

    name: ClassVar[str] = "length_constraints:nth_paragraph_first_word"
    num_paragraphs: int = Field(ge=1)
    nth_paragraph: int = Field(ge=1)
    first_word: str = Field(min_length=1)

    @model_validator(mode="after")
    def _is_there(self) -> Self:
        if self.nth_paragraph > self.num_paragraphs:
            raise ValueError("nth_paragraph must be at most num_paragraphs")
        return self

    def holds(self, text: str) -> bool:
        paragraphs = [part.strip() for part in text.split("\n\n")]
        num_paragraphs = sum(map(bool, paragraphs))
        if num_paragraphs != self.num_paragraphs or not paragraphs[self.nth_paragraph - 1]:
            return False
        word = paragraphs[self.nth_paragraph - 1].split(maxsplit=1)[0].lstrip("'").lstrip('"')
        return _MARK.split(word, maxsplit=1)[0].lower() == self.first_word.lower()


KINDS: tuple[type[Constraint], ...] = (
    NumberSentences,
    NumberParagraphs,
    NumberWords,
    NthParagraphFirstWord,
)
