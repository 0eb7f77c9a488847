"""The forms of judging: prompts, schemas of replies, and the outcome of a group's replies."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay_judge.forms.templates import Template
from assay_shared.errors import JudgeFault
from assay_shared.types import Criterion, JudgeForm, JudgeRequest, Label

_NO_REFERENCE = "(none is known)"
#: Best-of: maximum number of orders in which a group's answers are shown.
_MAX_ROTATIONS = 4
_MAX_REASON = 600
#: With `maxLength` alone a model could write raw control characters, which JSON forbids. With more
#: than 128 repetitions vLLM's grammar compiler answers 500.
_LONG_REASON = r'^[^"\\\x00-\x1f\x7f]*$'
_REASON = r'^[^"\\\x00-\x1f\x7f]{0,100}$'
#: Invisible characters: an answer could hide a tag's name with them.
_UNSEEN = r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
_WORDS = ("question", "reference", "answer", "first", "second")
_NAMES = "|".join(f"[{_UNSEEN}]{{0,3}}+".join(word) for word in _WORDS)
_BEFORE = rf"[\s/\\\uff0f{_UNSEEN}]{{0,8}}+"
#: The beginning of an opening or closing tag that a model could mistake for a tag of the prompt.
_TAG = re.compile(rf"[<\uff1c\ufe64](?={_BEFORE}(?:{_NAMES})s?(?![a-z0-9_]))", re.IGNORECASE)
_COMPATIBLE = {"True": Label.CORRECT, "False": Label.INCORRECT}


@dataclass(frozen=True)
class ParsedReply:
    """The content of a reply: a label, grades, or the index of an answer (None for a tie)."""

    value: Label | dict[str, int] | int | None
    reason: str = ""
    #: The model's own confidence, in [0, 1].
    confidence: float | None = None
    num_votes: int = 1
    #: Requests to models behind it; 0 if the reply was known already.
    num_requests: int = 0


@dataclass(frozen=True)
class JudgePrompt:
    """A prompt to a model, the JSON schema of its reply, and the reader of the reply.

    `read` raises JudgeFault if the object does not fit.
    """

    prompt: str
    schema: dict[str, Any]
    read: Callable[[dict[str, Any]], ParsedReply]
    template: str
    #: Accepted replies that are a bare word instead of an object, with their meaning.
    words: dict[str, ParsedReply] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a group's replies for a single answer: parts of a `Verdict`."""

    label: Label | None = None
    score: float | None = None
    grades: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    num_votes: int = 1
    #: Pairwise and best-of: the answer chosen in each order; None for a tie.
    choices: tuple[int | None, ...] = ()


def prompts_for(request: JudgeRequest, template: Template) -> list[JudgePrompt]:
    """Return the prompts for a group.

    `binary` and `graded` have a prompt for each answer, in order; `pairwise` and `best_of` have a
    prompt for each order of the answers.
    """
    match request.form:
        case JudgeForm.BINARY:
            return [_ask_binary(request, template, answer) for answer in request.answers]
        case JudgeForm.GRADED:
            return [_ask_grades(request, template, answer) for answer in request.answers]
        case JudgeForm.PAIRWISE:
            return [_ask_pair(request, template, order) for order in ((0, 1), (1, 0))]
        case JudgeForm.BEST_OF:
            return [_ask_best(request, template, order) for order in rotations(request.answers)]


def decide(request: JudgeRequest, findings: Sequence[ParsedReply]) -> list[Outcome]:
    """Return an outcome for each answer, from the findings on all prompts of the group."""
    match request.form:
        case JudgeForm.BINARY:
            return [
                Outcome(label=_label(one), reason=one.reason, num_votes=one.num_votes)
                for one in findings
            ]
        case JudgeForm.GRADED:
            return [_decide_grades(request.criteria, one) for one in findings]
        case JudgeForm.PAIRWISE:
            return _decide_pair(request.answers, findings)
        case JudgeForm.BEST_OF:
            return _decide_best(request.answers, findings)


def rotations(answers: Sequence[str]) -> list[tuple[int, ...]]:
    """Return at most four rotations of the answers' indices, spread evenly over all rotations.

    Each answer has another place in each of them.
    """
    num_answers = len(answers)
    num_orders = min(num_answers, _MAX_ROTATIONS)
    shifts = [round(i * num_answers / num_orders) for i in range(num_orders)]
    return [tuple((i + shift) % num_answers for i in range(num_answers)) for shift in shifts]


def _schema(template: Template, **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a reply, its keys in the order requested by the template."""
    if template.asks_reason_first:
        # Here the model reasons before it decides, so the reason may have any length.
        properties = {"reason": {"type": "string", "pattern": _LONG_REASON}} | properties
    else:
        properties["reason"] = {"type": "string", "pattern": _REASON}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _data(text: str) -> str:
    """Return a text for a place between tags, with the prompt's own tags in it escaped."""
    if text.isascii() and "<" not in text:
        return text
    return _TAG.sub(r"<\\", text)


def _reason(reply: dict[str, Any]) -> str:
    """Return the reason, shortened, with lone surrogates replaced: UTF-8 cannot encode them."""
    text = str(reply.get("reason", ""))[:_MAX_REASON]
    return text.encode(errors="replace").decode()


def _choice(reply: dict[str, Any], name: str, choices: Sequence[object]) -> Any:
    value = reply.get(name)
    if isinstance(value, bool) or value not in choices:
        shown = ", ".join(map(str, choices))
        raise JudgeFault(f"a reply whose {name} is {str(value)[:40]!r}, not one of {shown}")
    return value


def _ask_binary(request: JudgeRequest, template: Template, answer: str) -> JudgePrompt:
    def read(reply: dict[str, Any]) -> ParsedReply:
        label = Label(_choice(reply, "verdict", list(Label)))
        return ParsedReply(label, _reason(reply), _confidence(reply))

    certainty = {"confidence": {"type": "number"}} if template.asks_certainty else {}
    return JudgePrompt(
        template.fill(
            question=_data(request.question),
            answer=_data(answer),
            reference=_data(request.reference or _NO_REFERENCE),
        ),
        _schema(template, verdict={"type": "string", "enum": list(Label)}, **certainty),
        read,
        template.digest,
        {word: ParsedReply(label) for word, label in _COMPATIBLE.items()},
    )


def _confidence(reply: dict[str, Any]) -> float | None:
    value = reply.get("confidence")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def _label(finding: ParsedReply) -> Label:
    assert isinstance(finding.value, Label)
    return finding.value


def _ask_grades(request: JudgeRequest, template: Template, answer: str) -> JudgePrompt:
    scales = {one.name: range(one.low, one.high + 1) for one in request.criteria}

    def read(reply: dict[str, Any]) -> ParsedReply:
        grades = {name: int(_choice(reply, name, scale)) for name, scale in scales.items()}
        return ParsedReply(grades, _reason(reply))

    grades = {name: {"type": "integer", "enum": list(scale)} for name, scale in scales.items()}
    return JudgePrompt(
        template.fill(
            question=_data(request.question),
            answer=_data(answer),
            reference=_data(request.reference or _NO_REFERENCE),
            criteria="\n".join(map(_describe, request.criteria)),
            grades=", ".join(f'"{name}": a whole number' for name in scales),
        ),
        _schema(template, **grades),
        read,
        template.digest,
    )


def _describe(criterion: Criterion) -> str:
    scale = f"from {criterion.low} (worst) to {criterion.high} (best)"
    return f"- {criterion.name}, {scale}: {criterion.description}"


def _decide_grades(criteria: Sequence[Criterion], finding: ParsedReply) -> Outcome:
    grades = finding.value
    assert isinstance(grades, dict)
    whole = sum(one.weight for one in criteria)
    reached = sum(
        one.weight * (grades[one.name] - one.low) / (one.high - one.low) for one in criteria
    )
    return Outcome(
        score=reached / whole, grades=grades, reason=finding.reason, num_votes=finding.num_votes
    )


def _ask_pair(request: JudgeRequest, template: Template, order: tuple[int, int]) -> JudgePrompt:
    places = {"FIRST": order[0], "SECOND": order[1], "TIE": None}

    def read(reply: dict[str, Any]) -> ParsedReply:
        return ParsedReply(places[_choice(reply, "better", list(places))], _reason(reply))

    return JudgePrompt(
        template.fill(
            question=_data(request.question),
            first=_data(request.answers[order[0]]),
            second=_data(request.answers[order[1]]),
            reference=_data(request.reference or _NO_REFERENCE),
        ),
        _schema(template, better={"type": "string", "enum": list(places)}),
        read,
        template.digest,
    )


def _decide_pair(answers: Sequence[str], findings: Sequence[ParsedReply]) -> list[Outcome]:
    one, other = choices = _choices(findings)
    reason = "; ".join(finding.reason for finding in findings)
    # A judge swayed by the order has decided nothing, and equal answers cannot differ in quality.
    is_tie = one is None or one != other or answers[0] == answers[1]
    scores = (0.5, 0.5) if is_tie else (float(one == 0), float(one == 1))
    return [Outcome(score=s, reason=reason, num_votes=2, choices=choices) for s in scores]


def _choices(findings: Sequence[ParsedReply]) -> tuple[int | None, ...]:
    return tuple(one.value for one in findings if one.value is None or isinstance(one.value, int))


def _ask_best(request: JudgeRequest, template: Template, order: tuple[int, ...]) -> JudgePrompt:
    numbers = range(1, len(order) + 1)

    def read(reply: dict[str, Any]) -> ParsedReply:
        return ParsedReply(order[int(_choice(reply, "best", numbers)) - 1], _reason(reply))

    shown = (
        f"<answer number={n}>\n{_data(request.answers[i])}\n</answer>"
        for n, i in zip(numbers, order, strict=True)
    )
    return JudgePrompt(
        template.fill(
            question=_data(request.question),
            answers="\n\n".join(shown),
            reference=_data(request.reference or _NO_REFERENCE),
        ),
        _schema(template, best={"type": "integer", "enum": list(numbers)}),
        read,
        template.digest,
    )


def _decide_best(answers: Sequence[str], findings: Sequence[ParsedReply]) -> list[Outcome]:
    """Return each answer's share of the votes.

    Equal answers split their votes evenly: a judge cannot tell them apart.
    """
    choices = _choices(findings)
    votes = Counter(answers[one] for one in choices if one is not None)
    num_equal = Counter(answers)
    reason = "; ".join(finding.reason for finding in findings)
    return [
        Outcome(
            score=votes[answer] / num_equal[answer] / len(choices),
            reason=reason,
            num_votes=len(choices),
            choices=choices,
        )
        for answer in answers
    ]
