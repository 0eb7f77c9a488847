"""The base of all wire types (frozen and closed), and checked text types."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from assay_shared.text.half_characters import is_utf8
from assay_shared.types.described import Described


class Wire(Described, BaseModel):
    """Base of all wire types."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _shown(text: str) -> str:
    """Replace half characters by a mark; no reply could hold them."""
    return text if is_utf8(text) else text.encode("utf-8", "replace").decode()


#: For people to read; it may repeat what a policy wrote.
ShownText = Annotated[str, AfterValidator(_shown)]


def check_utf8(text: str) -> str:
    """Return `text`, refusing half characters: bytes outside UTF-8 are read as half characters.

    Raises:
        ValueError: the text holds a lone surrogate.
    """
    if not is_utf8(text):
        raise ValueError("must be Unicode text without lone surrogates")
    return text


Utf8Text = Annotated[str, AfterValidator(check_utf8)]
