"""Instructions about what a text is made of, how it begins and how it ends."""

import re
from typing import ClassVar

from pydantic import Field

from assay_reward.constraints.constraint import Constraint
from assay_reward.schemas import parse_json

_PLACEHOLDER = re.compile(r"\[[^\[\]\n]+\]")
_BULLET = re.compile(r"^[ \t]*(?:\*(?!\*)|-)[ \t]*\S", re.MULTILINE)
_HIGHLIGHT = re.compile(r"\*\*([^\n*]+)\*\*|\*([^\n*]+)\*")
_TITLE = re.compile(r"<<([^\n<>]+)>>")
_FENCE = re.compile(r"^```(?:json)?\s*\n(.*)\n?```$", re.DOTALL | re.IGNORECASE)
_POSTSCRIPTS = {"P.S.": r"^[ \t]*p\.[ ]?s\.", "P.P.S": r"^[ \t]*p\.[ ]?p\.[ ]?s"}
_SHORT_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


class NumberPlaceholders(Constraint):
    """At least so many [placeholders]."""

    name: ClassVar[str] = "detectable_content:number_placeholders"
    num_placeholders: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        return len(_PLACEHOLDER.findall(text)) >= self.num_placeholders


class Postscript(Constraint):
    """A line that begins with P.S. or another marker, in any case."""

    name: ClassVar[str] = "detectable_content:postscript"
    postscript_marker: str = Field(min_length=1)

    def holds(self, text: str) -> bool:
        marker = self.postscript_marker
        pattern = _POSTSCRIPTS.get(marker.strip(), rf"^[ \t]*{re.escape(marker.strip())}")
        return re.search(pattern, text, re.IGNORECASE | re.MULTILINE) is not None


class NumberBulletLists(Constraint):
    """Exactly so many bullet points, by * or by -."""

    name: ClassVar[str] = "detectable_format:number_bullet_lists"
    num_bullets: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        return len(_BULLET.findall(text)) == self.num_bullets


class ConstrainedResponse(Constraint):
    """One of three answers: My answer is yes, no, or maybe."""

    name: ClassVar[str] = "detectable_format:constrained_response"

    def holds(self, text: str) -> bool:
        return sum(answer in text for answer in _SHORT_ANSWERS) == 1


class NumberHighlightedSections(Constraint):
    """At least so many *highlighted* parts."""

    name: ClassVar[str] = "detectable_format:number_highlighted_sections"
    num_highlights: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        found = (bold or light for bold, light in _HIGHLIGHT.findall(text))
        return sum(bool(part.strip()) for part in found) >= self.num_highlights


class MultipleSections(Constraint):
    """At least so many sections, each with its word and number: SECTION 1."""

    name: ClassVar[str] = "detectable_format:multiple_sections"
    section_spliter: str = Field(min_length=1)
    num_sections: int = Field(ge=1)

    def holds(self, text: str) -> bool:
        heading = rf"{re.escape(self.section_spliter.strip())}\s?\d+"
        return len(re.findall(heading, text)) >= self.num_sections


class JSONFormat(Constraint):
    """All of it is JSON, in fences or not."""

    name: ClassVar[str] = "detectable_format:json_format"

    def holds(self, text: str) -> bool:
        fenced = _FENCE.match(text.strip())
        try:
            parse_json(fenced.group(1) if fenced else text.strip())
        except ValueError:
            return False
        return True


class Title(Constraint):
    """A title in <<double angular brackets>>."""

    name: ClassVar[str] = "detectable_format:title"

    def holds(self, text: str) -> bool:
        return any(title.strip() for title in _TITLE.findall(text))


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
    """The request stands word for word before the answer."""

    name: ClassVar[str] = "combination:repeat_prompt"
    prompt_to_repeat: str = Field(min_length=1)

    def holds(self, text: str) -> bool:
        return text.strip().lower().startswith(self.prompt_to_repeat.strip().lower())


class EndChecker(Constraint):
    """It ends with these very words."""

    name: ClassVar[str] = "startend:end_checker"
    end_phrase: str = Field(min_length=1)

    def holds(self, text: str) -> bool:
        return text.strip().strip('"').lower().endswith(self.end_phrase.strip().lower())


class Quotation(Constraint):
    """All of it stands in double quotation marks."""

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
