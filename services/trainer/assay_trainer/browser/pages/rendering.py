"""Renders the browser's pages from their templates; everything from outside is escaped."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from pydantic import BaseModel

from assay_shared.text.html_pages import templates_in
from assay_shared.text.markdown import visible
from assay_trainer.browser.pages.cells import look
from assay_trainer.browser.samples.evidence import evidence_parts
from assay_trainer.learner.batching.group_batch import DiscardReason

_TEMPLATES = Path(__file__).parent / "templates"
_REASONS = {
    DiscardReason.TOO_OLD: "its tokens are of too old weights",
    DiscardReason.UNKNOWN_VERSION: "it is of weights that the run never published",
    DiscardReason.SET_ASIDE: "its task was set aside",
    DiscardReason.FAILED: "no sample has a score",
    DiscardReason.NO_SIGNAL: "all rewards are equal",
    DiscardReason.NOTHING_TO_LEARN: "grpo.overlong filters out each scored sample",
    DiscardReason.FLAT_STEP: "no group of the batch could teach anything",
}


@dataclass(frozen=True)
class CutText:
    """The beginning of a text, and the number of characters that are left out."""

    text: str
    num_left: int


class PageTemplates:
    """The templates, for texts of at most `most_characters` characters."""

    def __init__(
        self, most_characters: int, *, more: Path | None = None, style: str = "", script: str = ""
    ) -> None:
        """Read the templates, and those of a further folder `more` with its style and script."""
        folders = (_TEMPLATES,) if more is None else (_TEMPLATES, more)
        self._environment = _environment(most_characters, folders)
        self.style = (_TEMPLATES / "style.css").read_text() + style
        self.script = (_TEMPLATES / "browser.js").read_text() + script

    @property
    def inline(self) -> str:
        """The constant style and script, as content policies name them."""
        return f"<style>{self.style}</style><script>{self.script}</script>"

    def render(self, name: str, **values: Any) -> str:
        """Return a page, or the part of one."""
        given = {"style": self.style, "script": self.script, "policy": "", **values}
        return self._environment.get_template(f"{name}.html.j2").render(given)


@cache
def _environment(most_characters: int, folders: tuple[Path, ...]) -> Environment:
    def cut(text: str) -> CutText:
        return CutText(text[:most_characters], max(0, len(text) - most_characters))

    environment = templates_in(*folders)
    environment.finalize = _shown
    environment.filters |= {
        "cut": cut,
        "look": look,
        "words": lambda reason: _REASONS.get(reason, reason),
        "json_text": _json_text,
        "evidence": evidence_parts,
    }
    return environment


def _shown(value: object) -> object:
    """Return the value of an expression, with marks for the invisible characters of a text."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return visible(str(value)) if is_text else value


def _json_text(value: BaseModel) -> str:
    return value.model_dump_json(indent=1)
