"""Prompts of the operators: a text file each, with named slots and a digest."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

_FOLDER = Path(__file__).parent / "prompts"
_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")


@dataclass(frozen=True)
class OperatorPrompt:
    """The text of a prompt file. A slot is a name in double braces."""

    name: str
    text: str

    @cached_property
    def digest(self) -> str:
        """The first 12 digits of the text's SHA-256."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the text with a value in each slot.

        A value is never searched for slots. Otherwise a problem could read the other values.
        """
        return _SLOT.sub(lambda slot: values[slot[1]], self.text)


@cache
def prompt_file(name: str) -> OperatorPrompt:
    """Return the prompt of `prompts/<name>.txt`."""
    return OperatorPrompt(name, (_FOLDER / f"{name}.txt").read_text().strip())
