"""Texts that say nothing: without a visible character, an empty fence, or reasoning alone."""

import unicodedata
from typing import Final

from assay_shared.text.reasoning import after_reasoning

#: Letters and signs that are drawn as nothing: Hangul fillers and the empty Braille cell.
_DRAWN_EMPTY: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")


def says_nothing(text: str) -> bool:
    """Return True for a text in which nobody can read anything. The work grows with its length."""
    lines = after_reasoning(text).splitlines()
    return not any(map(_is_visible, "".join(line for line in lines if not _is_fence(line))))


def _is_fence(line: str) -> bool:
    """Return True for the marks of a fence, perhaps with the name of a language."""
    said = line.strip()
    name = said.strip("`~ ")
    return said.startswith(("```", "~~~")) and (not name or name.isalpha())


def _is_visible(character: str) -> bool:
    """Return True for letters, digits, punctuation and symbols; marks need one of these."""
    return unicodedata.category(character)[0] in "LNPS" and character not in _DRAWN_EMPTY
