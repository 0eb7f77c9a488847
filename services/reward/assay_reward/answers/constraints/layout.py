"""Instructions about the parts of a text, its beginning and its end."""

import re
from typing import ClassVar

from pydantic import Field

from assay_reward.answers.constraints.constraint import Constraint
from assay_reward.answers.json_schema import parse_json

_HIGHLIGHT = re.compile(r"\*[^\n*]*+\*")
_DOUBLE_HIGHLIGHT = re.compile(r"\*\*[^\n*]*+\*\*")
_POSTSCRIPTS = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}
_FENCES = ("```json", "```Json", "```JSON", "```")
_SHORT_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


class NumberPlaceholders(Constraint):
    """A minimum number of [placeholders]."""

    name: ClassVar[str] = "detectable_content:number_placeholders"
    num_placeholders: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        return sum(map(_num_placeholders, text.split("\n"))) >= self.num_placeholders


def _num_placeholders(line: str) -> int:
    """Return the number of bracket pairs in a line; an opening within a pair does not count."""
    count = 0
    start = line.find("[")
    while start >= 0 and (end := line.find("]", start)) >= 0:
        count += 1
        start = line.find("[", end)
    return count


class Postscript(Constraint):
    """P.S. or another marker anywhere in the text, in any case."""

    name: ClassVar[str] = "detectable_content:postscript"
    postscript_marker: str = Field(min_length=1)

    def holds(self, text: str) -> bool:
        marker = self.postscript_marker.strip()
        pattern = _POSTSCRIPTS.get(marker, re.escape(marker.lower()))
        return re.search(pattern, text.lower()) is not None


class NumberBulletLists(Constraint):
    """An exact number of bullet points, by * or by -."""

    name: ClassVar[str] = "detectable_format:number_bullet_lists"
    num_bullets: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        lines = [line.lstrip() for line in text.split("\n")]
        num_dashes = sum(line.startswith("-") for line in lines)
        return num_dashes + _num_asterisks(lines) == self.num_bullets


def _num_asterisks(lines: list[str]) -> int:
    """Return the number of lines with a single asterisk first; a lone * takes the next line in."""
    count = at = 0
    while at < len(lines):
        line = lines[at]
        is_alone = line == "*" and at + 1 < len(lines)
        count += is_alone or (line[:1] == "*" and line[1:2] not in ("", "*"))
        at += 1 + is_alone
    return count


class ConstrainedResponse(Constraint):
    """A sentence anywhere in the text: My answer is yes, or no, or maybe."""

    name: ClassVar[str] = "detectable_format:constrained_response"

    def holds(self, text: str) -> bool:
        return any(answer in text for answer in _SHORT_ANSWERS)


class NumberHighlightedSections(Constraint):
    """A minimum number of *highlighted* or **highlighted** parts."""

    name: ClassVar[str] = "detectable_format:number_highlighted_sections"
    num_highlights: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        light = [part.strip("*").strip() for part in _HIGHLIGHT.findall(text)]
        bold = [part[2:-2].strip() for part in _DOUBLE_HIGHLIGHT.findall(text)]
        return sum(map(bool, light + bold)) >= self.num_highlights


class MultipleSections(Constraint):
    """A minimum number of sections, each with its word and number: SECTION 1."""

    name: ClassVar[str] = "detectable_format:multiple_sections"
    section_spliter: str = Field(min_length=1)
    num_sections: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        heading = rf"{re.escape(self.section_spliter.strip())}\s?\d"
        return len(re.findall(heading, text)) >= self.num_sections


class JSONFormat(Constraint):
    """JSON as the whole text, in fences or not."""

    name: ClassVar[str] = "detectable_format:json_format"

    def holds(self, text: str) -> bool:
        bare = text.strip()
        for fence in _FENCES:
            bare = bare.removeprefix(fence)
        try:
            parse_json(bare.removesuffix("```").strip())
        except ValueError:
            return False
        return True


class Title(Constraint):
    """A title in <<double angular brackets>>."""

    name: ClassVar[str] = "detectable_format:title"

    def holds(self, text: str) -> bool:
        return any(map(_title, text.split("\n")))


def _title(line: str) -> str:
    start, end = line.find("<<"), line.rfind(">>")
    return line[start : end + 2].lstrip("<").rstrip(">").strip() if 0 <= start < end - 2 else ""


class TwoResponses(Constraint):
    """Two different answers with ****** between them."""

    name: ClassVar[str] = "combination:two_responses"

    def holds(self, text: str) -> bool:
        parts = [part.strip() for part in text.split("******")]
        if not all(parts[1:-1]):
            return False
        given = [part for part in parts if part]
        return len(given) == 2 and given[0] != given[1]


class RepeatPrompt(Constraint):
    """The request, word for word, before the answer."""

    name: ClassVar[str] = "combination:repeat_prompt"
    prompt_to_repeat: str = Field(min_length=1)

    def holds(self, text: str) -> bool:
        return text.strip().lower().startswith(self.prompt_to_repeat.strip().lower())


class EndChecker(Constraint):
    """An end with exactly these words, in any case."""

    name: ClassVar[str] = "startend:end_checker"
    end_phrase: str = Field(min_length=1)

    def holds(self, text: str) -> bool:
        return text.strip().strip('"').lower().endswith(self.end_phrase.strip().lower())


class Quotation(Constraint):
    """Double quotation marks around the whole text."""

    name: ClassVar[str] = "startend:quotation"

    def holds(self, text: str) -> bool:
        plain = text.strip()
        return len(plain) > 1 and plain.startswith('"') and plain.endswith('"')


KINDS: tuple[type[Constraint], ...] = (
    NumberPlaceholders,
    Postscript,
    NumberBulletLists,
    ConstrainedResponse,
    NumberHighlightedSections,
    MultipleSections,
    JSONFormat,
    Title,
    TwoResponses,
    RepeatPrompt,
    EndChecker,
    Quotation,
)
