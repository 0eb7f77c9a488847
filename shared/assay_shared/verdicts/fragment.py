"""Compared answers in HTML: an overview, the table of each group, and their style."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from assay_shared.text.html_pages import templates_in
from assay_shared.text.markdown import visible
from assay_shared.verdicts.compared import ComparedGroup, GivenReward, Harm, Nature

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_CHARACTERS = 4000
#: Bars of advantages end at this value: the lowest of a group of 8 is -2.47.
_LARGEST = 2.5
_SIGNS = {Nature.RIGHT: "✓", Nature.WRONG: "✗", Nature.CHEAT: "⚑", Nature.UNKNOWN: "·"}


def verdict_tables(groups: Sequence[ComparedGroup]) -> Markup:
    """Return a table for each group; everything from outside is escaped.

    The page around it needs `verdict_style()` in its style sheet.
    """
    return Markup(_environment().get_template("groups.html.j2").render(groups=groups))


def verdict_overview(groups: Sequence[ComparedGroup]) -> Markup:
    """Return two maps of all answers by their rewards; each cell is a link to its row."""
    return Markup(_environment().get_template("overview.html.j2").render(groups=groups))


def verdict_style() -> str:
    """Return the style sheet of tables and overview; its classes begin with `v-`."""
    return (_TEMPLATES / "verdicts.css").read_text()


@cache
def _environment() -> Environment:
    environment = templates_in(_TEMPLATES)
    environment.finalize = _shown
    environment.filters |= {"cut": _cut, "bar": _bar, "look": _look, "signed": _signed}
    environment.globals |= {"Harm": Harm, "signs": _SIGNS}
    return environment


def _shown(value: object) -> object:
    """Return the value of an expression, with marks for the invisible characters of a text."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return visible(str(value)) if is_text else value


def _cut(text: str) -> str:
    """Return the text, or its beginning with the number of characters left out."""
    left = len(text) - _MOST_CHARACTERS
    return text if left <= 0 else f"{text[:_MOST_CHARACTERS]}\n… {left:,} more characters"


def _signed(advantage: float | None) -> str:
    """Return an advantage with its sign, as people read it."""
    if advantage is None:
        return "none"
    return "0.00" if abs(advantage) < 0.005 else f"{advantage:+.2f}".replace("-", "\N{MINUS SIGN}")


def _bar(advantage: float | None) -> tuple[float, float]:
    """Return left end and width of an advantage's bar, in percent of its line."""
    share = min(1.0, max(-1.0, (advantage or 0.0) / _LARGEST)) * 50
    return (50 + min(0.0, share), abs(share))


def _look(reward: GivenReward) -> str:
    """Return the class of a reward's cell."""
    if reward.value is None:
        return "v-failed"
    return "v-paid" if reward.value > 0 else "v-refused"
