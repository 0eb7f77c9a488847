"""The feedback on an answer: a text within a budget of tokens.

It is made of the answer's outcome, the class of its share of tests passed, and failed public tests.
Nothing else is taken in, so no hidden test can be told: see docs/repair.md.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay_shared.text.template_tokens import without_template_tokens
from assay_shared.types import AssertCase, CallCase, Status, StdinCase, TestCase

#: The default budget, in tokens.
FEEDBACK_TOKENS = 300
#: A smaller budget has no room for the outcome and the request to answer again.
LEAST_TOKENS = 128
#: The failed tests that are shown at most.
FAILED_CASES = 3
_SHOWN_LENGTH = 240
#: Characters that are kept of a message, until the feedback fits.
_MESSAGE_LENGTHS = (2000, 1000, 600, 400, 240, 120, 60, 0)
_PIECE = re.compile(r"[a-z]+|[ \t]+|\r?\n|.", re.DOTALL)

AGAIN = "Reply with the whole corrected program."


class PassClass(StrEnum):
    """How many of its tests a program passes. The exact share would tell the number of tests."""

    NONE = "none"
    FEW = "less than half"
    MANY = "half or more"


@dataclass(frozen=True)
class FailedCase:
    """A public test that a program failed: its input and output, and what happened."""

    shown: str
    status: str
    message: str = ""


@dataclass(frozen=True)
class PublicRun:
    """The public tests of a program: how many there are and were passed, and failed ones.

    `error` is of the program as a whole: it has no syntax, or ends before any test.
    """

    num_cases: int = 0
    num_passed: int = 0
    failed: Sequence[FailedCase] = ()
    error: str = ""


def pass_class(ratio: float) -> PassClass:
    """Return the class of a share of tests passed."""
    if ratio <= 0.0:
        return PassClass.NONE
    return PassClass.FEW if ratio < 0.5 else PassClass.MANY


def most_tokens(text: str) -> int:
    """Return an estimate from above of a text's tokens, for a tokenizer that nobody knows.

    A token of small letters counts as two letters, any other token as a single byte.
    """
    return sum(_most_of(piece) for piece in _PIECE.findall(text))


def _most_of(piece: str) -> int:
    if piece[0] in " \t" or (piece.isascii() and piece.isalpha() and piece.islower()):
        return -(-len(piece) // 2)
    return max(1, len(piece.encode(errors="replace")))


def feedback(
    outcome: Status,
    ratio: float,
    public: PublicRun,
    *,
    budget: int = FEEDBACK_TOKENS,
    count: Callable[[str], int] = most_tokens,
) -> str:
    """Return the feedback on a program that was not accepted, of at most `budget` tokens.

    A message loses its beginning until the whole fits: the end of a traceback names the error.
    A space breaks up tokens of chat templates: no program can end the message, or begin another.
    """
    head = _head(outcome, ratio, public)
    parts = [head]
    error = without_template_tokens(public.error)
    if error and (cut := _longest([head], "", error, budget, count)):
        parts.append(cut)
    for case in public.failed:
        shown = without_template_tokens(f"{case.shown}: {case.status}")
        cut = _longest(parts, shown, without_template_tokens(case.message), budget, count)
        if not cut:
            break
        parts.append(cut)
    return "\n".join([*parts, AGAIN])


def _head(outcome: Status, ratio: float, public: PublicRun) -> str:
    passed = pass_class(ratio)
    lines = [f"The program is not right: {outcome}. Tests passed: {passed}."]
    if public.num_cases:
        lines.append(f"Of the tests you know, it passes {public.num_passed} of {public.num_cases}.")
    return "\n".join(lines)


def _longest(
    parts: Sequence[str], head: str, message: str, budget: int, count: Callable[[str], int]
) -> str:
    """Return head and message with the longest end of the message that fits; "" if none does."""
    for found in _shorter(head, message.strip()):
        if found and count("\n".join([*parts, found, AGAIN])) <= budget:
            return found
    return ""


def _shorter(head: str, message: str) -> Iterator[str]:
    for length in _MESSAGE_LENGTHS:
        if length < len(message) or length == _MESSAGE_LENGTHS[0]:
            end = message if len(message) <= length else f"...{message[len(message) - length :]}"
            yield "\n".join(one for one in (head, end if length else "") if one)


def shown_case(case: TestCase) -> str:
    """Return the text of a public test."""
    match case:
        case StdinCase():
            return (
                f"stdin {_start(repr(case.stdin))}, expected {_start(repr(case.expected_stdout))}"
            )
        case CallCase():
            arguments = ", ".join(repr(one) for one in case.args)
            return f"{case.function}({_start(arguments)}), expected {_start(repr(case.expected))}"
        case AssertCase():
            return _start(case.code.strip())


def _start(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "..."
