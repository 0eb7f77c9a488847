"""Prompts: a file each, known by its name and by the hash of its text."""

import hashlib
import string
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.types import JudgeForm

_OWN = Path(__file__).parent / "prompts"
#: What a template of a form has to mention; `reference` it may leave out.
_NEEDED = {
    JudgeForm.BINARY: {"question", "answer"},
    JudgeForm.GRADED: {"question", "answer", "criteria", "grades"},
    JudgeForm.PAIRWISE: {"question", "first", "second"},
    JudgeForm.BEST_OF: {"question", "answers"},
}
#: Where a template names what a reply decides.
_DECISIONS = ('"verdict"', '"better"', '"best"', "{grades}")
#: Of the names of built-in templates: the reason is asked for before the decision.
REASONED = "reasoned"
_ALLOWED = {form: names | {"reference"} for form, names in _NEEDED.items()}


@dataclass(frozen=True)
class Template:
    """A prompt with names in braces; a brace that is meant is written twice."""

    text: str
    digest: str

    @cached_property
    def asks_certainty(self) -> bool:
        """Whether a reply has `confidence`."""
        return '"confidence"' in self.text

    @cached_property
    def asks_reason_first(self) -> bool:
        """Whether a reply gives its reason before what it decides."""
        reason = self.text.rfind('"reason"')
        return 0 <= reason < max(self.text.rfind(key) for key in _DECISIONS)

    @cached_property
    def _parts(self) -> list[tuple[str, str | None]]:
        return [(text, name) for text, name, _, _ in string.Formatter().parse(self.text)]

    def fill(self, **values: str) -> str:
        """Return the prompt with the values in their places."""
        return "".join(text + (values[name] if name else "") for text, name in self._parts)


class Templates:
    """The forms' own, and an operator's: FOLDER/FORM.NAME.txt."""

    def __init__(self, folder: Path | None) -> None:
        """Read all.

        Raises:
            ConfigError: a file that is no template of its form.
        """
        if folder is not None and not folder.is_dir():
            raise ConfigError(f"{folder} is no folder", field="templates")
        self._found: dict[tuple[JudgeForm, str], Template] = {}
        for path in (*_OWN.glob("*.txt"), *(folder.glob("*.txt") if folder else ())):
            form, _, name = path.stem.partition(".")
            if form not in set(JudgeForm) or (not name and path.parent != _OWN):
                known = ", ".join(JudgeForm)
                raise ConfigError(
                    f"{path.name} must be called FORM.NAME.txt, with one of the forms {known}",
                    field="templates",
                )
            self._found[JudgeForm(form), name] = _read(path, JudgeForm(form))

    def find(self, form: JudgeForm, name: str | None) -> Template:
        """Raises InvalidInput where there is none of that name."""
        if (form, name or "") not in self._found:
            known = sorted(other for kind, other in self._found if kind is form and other)
            raise InvalidInput(
                f"no template {name!r} for {form}",
                field="template",
                hint=f"known: {', '.join(known) or 'none'}",
            )
        return self._found[form, name or ""]


def _read(path: Path, form: JudgeForm) -> Template:
    text = path.read_text()
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise ConfigError(f"{path.name}: {error}", field="templates") from None
    missing, unknown = _NEEDED[form] - names, names - _ALLOWED[form]
    if missing or unknown:
        wrong = f"lacks {{{min(missing)}}}" if missing else f"has {{{min(unknown)}}}"
        raise ConfigError(
            f"{path.name} {wrong}; a brace that is no name is doubled", field="templates"
        )
    return Template(text, hashlib.sha256(text.encode()).hexdigest()[:12])
