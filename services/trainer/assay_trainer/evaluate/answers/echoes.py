"""The log-probabilities of an option in a server's echo of a prompt, checked before they count.

Servers spell the tokens of an echo in several ways. vLLM puts the name of a first special token
before the prompt. A token with a part of a character is "bytes:\\xe4", U+FFFD or empty. A token
read alone may lack its first space. SGLang says -1 for each offset.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, isfinite
from typing import Any

from assay_shared.clients.model_replies import SERVICE
from assay_shared.errors import InvalidInput

#: Special tokens before a prompt, such as the one that begins a text.
_MOST_SPECIAL = 2
#: Rounding may put the log-probability of a sure token above 0.
_ROUNDING = 1e-6
_PART = "\N{REPLACEMENT CHARACTER}"
_PARTS = re.compile(f"({_PART}+)")
_BYTES = re.compile(r"(?:\\x[0-9a-f]{2})+")
_NOT_ECHOED = "the server does not echo the prompt: its tokens do not spell the text that was sent"
_HINT = "vLLM, SGLang and Assay do, by `echo` of /completions; or sample the answers"


def echoed_logprobs(reply: Mapping[str, Any], prompt: str, continuation: str) -> tuple[float, int]:
    """Return the sum of the log-probabilities of a continuation's tokens, and their number.

    A token counts as the continuation's if its last character is: it may begin before it.

    Raises:
        InvalidInput: the reply does not tell them, or what it tells cannot be right.
    """
    tokens, values, offsets = _told(reply)
    ends = token_ends(tokens, prompt + continuation, num_sampled=_num_sampled(reply))
    if ends is None:
        raise _unusable(_NOT_ECHOED)
    if offsets is not None and not _do_rise(offsets[: len(ends)]):
        raise _unusable("the offsets of the tokens in the server's echo do not rise")
    return sum_of_logprobs(
        [value for value, end in zip(values, ends, strict=False) if end > len(prompt)], SERVICE
    )


def sum_of_logprobs(values: Sequence[object], service: str) -> tuple[float, int]:
    """Return the sum of an option's log-probabilities, and their number.

    Raises:
        InvalidInput: there is none, or one is not a finite number of at most 0.
    """
    if not values:
        raise _unusable("no token of an option has a log-probability", service)
    read = [_number(value) for value in values]
    if None in read:
        raise _unusable("a token of an option has no log-probability", service)
    known = [one for one in read if one is not None]
    wrong = [one for one in known if not (isfinite(one) and one <= _ROUNDING)]
    if wrong:
        raise _unusable(
            f"a token of an option has the log-probability {wrong[0]:g}, which is not a finite "
            "number of at most 0",
            service,
        )
    total = sum(min(one, 0.0) for one in known)
    if not isfinite(total):
        raise _unusable("the log-probabilities of an option have no finite sum", service)
    return total, len(known)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return inf if value > 0 else -inf


def _unusable(message: str, service: str = SERVICE) -> InvalidInput:
    return InvalidInput(message, field="protocol.kind", hint=_HINT, service=service)


def _told(reply: Mapping[str, Any]) -> tuple[list[str], list[object], list[int] | None]:
    """Return the tokens, their log-probabilities, and their offsets if the server knows them.

    Raises:
        InvalidInput: they are missing, or are not of one length.
    """
    unusable = _unusable("the server tells no log-probabilities of a prompt: likelihood needs them")
    try:
        told = reply["choices"][0]["logprobs"]
        tokens, values, offsets = told["tokens"], told["token_logprobs"], told.get("text_offset")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise unusable from None
    if not isinstance(tokens, list) or not all(isinstance(one, str) for one in tokens):
        raise unusable
    if not isinstance(values, list) or len(values) != len(tokens) or not tokens:
        raise unusable
    if offsets is None or offsets == [-1] * len(tokens):
        return tokens, values, None
    if not isinstance(offsets, list) or len(offsets) != len(tokens):
        raise _unusable("the server's echo has another number of offsets than of tokens")
    if not all(isinstance(one, int) for one in offsets):
        raise _unusable("an offset in the server's echo is not a whole number")
    return tokens, values, offsets


def _num_sampled(reply: Mapping[str, Any]) -> int:
    """Return the number of sampled tokens after the prompt: the one asked for, or none."""
    usage = reply.get("usage")
    return 0 if isinstance(usage, dict) and usage.get("completion_tokens") == 0 else 1


def _do_rise(offsets: Sequence[int]) -> bool:
    falls = any(after < before for before, after in pairwise(offsets))
    return not falls and (len(offsets) < 2 or offsets[-1] > offsets[0])


def token_ends(tokens: Sequence[str], text: str, *, num_sampled: int) -> list[int] | None:
    """Return the end in `text` of each token that spells it; None if the tokens do not spell it.

    Args:
        num_sampled: 1 if the last token may have been sampled after the text, else 0.
    """
    spelling = _Spelling(text)
    for number, token in enumerate(tokens):
        if spelling.at == len(text):
            break
        if spelling.add(token):
            continue
        if spelling.is_begun or number >= _MOST_SPECIAL:
            is_sampled = num_sampled > 0 and number == len(tokens) - 1
            return spelling.ended(0) if is_sampled else None
        spelling.skip()
    return spelling.ended(num_sampled)


class _Spelling:
    """The characters of a text, taken token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        #: The end of what the tokens have spelled.
        self.at = 0
        self.is_begun = False
        self._ends: list[int] = []
        #: Tokens after `_ends` with an unknown extent, and whether they have parts of characters.
        self._num_open = 0
        self._has_parts = False

    def add(self, token: str) -> bool:
        """Take a token; return False, and change nothing, if it is not what follows in the text."""
        if token and not self._num_open and self.text.startswith(token, self.at):
            return self._take(self.at, token)
        if token.startswith("bytes:") and "\\x" in token:
            token = _BYTES.sub(_PART, token.removeprefix("bytes:"))
        pieces = [one for one in _PARTS.split(token) if one]
        known = [one for one in pieces if not one.startswith(_PART)]
        if not known:  # nothing, or only parts of characters
            self._num_open += 1
            self._has_parts |= bool(pieces)
            return True
        if len(known) > 1:
            return False  # no token has a text on both sides of a part of a character
        # Parts before the text belong to the characters that are open.
        has_parts, self._has_parts = self._has_parts, self._has_parts or pieces[0] != known[0]
        first = self._place(known[0])
        if first is None:
            self._has_parts = has_parts
            return False
        self._take(first, known[0])
        if pieces[-1] != known[0]:  # its last character is open
            self._ends.pop()
            self._num_open, self._has_parts = 1, True
        return True

    def _take(self, first: int, known: str) -> bool:
        last = first + len(known)
        # An empty token before a text that follows at once is the first part of that text.
        open_end = first if first > self.at else last
        self._ends += [*[open_end] * self._num_open, last]
        self.at, self.is_begun, self._num_open, self._has_parts = last, True, 0, False
        return True

    def _place(self, known: str) -> int | None:
        """Return the place of a known text, after the open characters; None if it has none."""
        at = self.at
        if not self._has_parts:
            if self.text.startswith(known, at):
                return at
            if at == 0 and known[0] == " " and self.text.startswith(known[1:]):
                return -1  # its first space is of the tokenizer
        if self.text.startswith(" ", at):
            at += 1
            if not self._has_parts and self.text.startswith(known, at):
                return at
        while (self._num_open or self._has_parts) and not self.text[at : at + 1].isascii():
            at += 1
            if self.text.startswith(known, at):
                return at
        return None

    def skip(self) -> None:
        """Take a special token before the text."""
        self._ends.append(0)

    def ended(self, num_sampled: int) -> list[int] | None:
        """Return the ends of all tokens, the last `num_sampled` open ones left out.

        None: characters of the text are left. Open tokens can only have spelled other than ASCII.
        """
        rest = self.text[self.at :].removeprefix(" ")
        if self.at == len(self.text):
            return self._ends
        num_open = self._num_open - num_sampled
        if num_open < 1 or not rest or any(one.isascii() for one in rest):
            return None
        return [*self._ends, *[len(self.text)] * num_open]
