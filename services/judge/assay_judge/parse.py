"""Reading a judge's reply: strictly, since a guess would be a verdict nobody gave."""

import re

from pydantic import BaseModel, ConfigDict, ValidationError

from assay_shared.errors import JudgeFault
from assay_shared.types import Label

_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)
_MAX_SHOWN = 200


class Reply(BaseModel):
    """The object that the prompt asks for."""

    model_config = ConfigDict(extra="ignore")

    verdict: Label
    reason: str = ""


def parse_reply(content: str | None, finish_reason: str | None) -> Reply:
    """The reply as an object.

    Raises:
        JudgeFault: it is empty, cut off, or anything but that one object.
    """
    text = (content or "").strip()
    if not text:
        raise JudgeFault(f"an empty reply (finish_reason {finish_reason})")
    if finish_reason == "length":
        raise JudgeFault("a reply cut off at its token limit")
    fenced = _FENCE.match(text)
    try:
        return Reply.model_validate_json(fenced.group(1) if fenced else text)
    except ValidationError:
        raise JudgeFault(f"a reply that is not a verdict: {text[:_MAX_SHOWN]!r}") from None
