"""Which languages there are: adding one that needs no compiler is one row."""

import functools
import shutil
import subprocess
from dataclasses import dataclass

from assay_shared.errors import InvalidInput


@dataclass(frozen=True)
class Language:
    """How to run a source file. An empty command means: inside the harness's own interpreter."""

    name: str
    source: str
    command: tuple[str, ...]
    version_command: tuple[str, ...]


LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "main.py", (), ()),
        Language("bash", "main.sh", ("bash", "main.sh"), ("bash", "--version")),
        Language("javascript", "main.js", ("node", "main.js"), ("node", "--version")),
    )
}


def find_language(name: str) -> Language:
    """The language called `name`.

    Raises:
        InvalidInput: there is none, or this host lacks its interpreter.
    """
    language = LANGUAGES.get(name)
    if language is None:
        known = ", ".join(LANGUAGES)
        raise InvalidInput(f"{name!r} is not known", field="language", hint=f"known: {known}")
    if language.command and shutil.which(language.command[0]) is None:
        raise InvalidInput(f"this host has no {language.command[0]}", field="language")
    return language


@functools.cache
def version(language: Language, python: str) -> str | None:
    """What the interpreter says of itself; None if it is not here."""
    command = language.version_command or (python, "--version")
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.partition("\n")[0].strip()
