"""What all wire types have in common: frozen, closed, and texts that UTF-8 can carry."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from assay_shared.text.half_characters import is_utf8
from assay_shared.types.described import Described


class Wire(Described, BaseModel):
    """Base of all wire types."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _shown(text: str) -> str:
    """Put a mark in place of half characters, which no reply could hold."""
    return text if is_utf8(text) else text.encode("utf-8", "replace").decode()


#: For people to read; it may repeat what a policy wrote.
ShownText = Annotated[str, AfterValidator(_shown)]


def check_utf8(text: str) -> str:
    """Refuse half characters: bytes that are not UTF-8 are read as such ones."""
    if not is_utf8(text):
        raise ValueError("must be Unicode text without lone surrogates")
    return text


Utf8Text = Annotated[str, AfterValidator(check_utf8)]
