"""Prompt templates: a file each, identified by its name and by the hash of its text."""

import hashlib
import string
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.types import JudgeForm

_OWN = Path(__file__).parent / "prompts"
#: Names that a template of a form must contain; `reference` is optional.
_NEEDED = {
    JudgeForm.BINARY: {"question", "answer"},
    JudgeForm.GRADED: {"question", "answer", "criteria", "grades"},
    JudgeForm.PAIRWISE: {"question", "first", "second"},
    JudgeForm.BEST_OF: {"question", "answers"},
}
#: Texts by which a template asks for the decision.
_DECISIONS = ('"verdict"', '"better"', '"best"', "{grades}")
#: Part of a built-in template's name: it asks for the reason before the decision.
REASONED = "reasoned"
_ALLOWED = {form: names | {"reference"} for form, names in _NEEDED.items()}


@dataclass(frozen=True)
class Template:
    """A prompt with names in braces; a literal brace is written twice."""

    text: str
    digest: str

    @cached_property
    def asks_certainty(self) -> bool:
        """True if the template asks for `confidence` in the reply."""
        return '"confidence"' in self.text

    @cached_property
    def asks_reason_first(self) -> bool:
        """True if the template asks for the reason before the decision."""
        reason = self.text.rfind('"reason"')
        return 0 <= reason < max(self.text.rfind(key) for key in _DECISIONS)

    @cached_property
    def _parts(self) -> list[tuple[str, str | None]]:
        return [(text, name) for text, name, _, _ in string.Formatter().parse(self.text)]

    def fill(self, **values: str) -> str:
        """Return the prompt with each name in braces replaced by its value."""
        return "".join(text + (values[name] if name else "") for text, name in self._parts)


class Templates:
    """The built-in templates of the forms, and the operator's own: FOLDER/FORM.NAME.txt."""

    def __init__(self, folder: Path | None) -> None:
        """Read all templates.

        Raises:
            ConfigError: a file is not a template of its form, or `folder` is not a folder.
        """
        if folder is not None and not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder", field="templates")
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
        """Return the form's template of this name (None: the form's default).

        Raises:
            InvalidInput: there is no such template.
        """
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
        raise ConfigError(f"{path.name} {wrong}; write a literal brace twice", field="templates")
    return Template(text, hashlib.sha256(text.encode()).hexdigest()[:12])
