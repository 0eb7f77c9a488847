"""Review: a comment on a solution, and whether the reviewer finds it right."""

import re

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.prompt_files import prompt_file
from assay_reward.workflows.operators.support.texts import ReplyText

#: The finding at the beginning, or after the word that names it; elsewhere in capitals.
_FIRST = re.compile(r"\W*(RIGHT|WRONG)\b(?!-)", re.IGNORECASE)
_SAID = re.compile(
    r"\b(?:verdict|finding|conclusion|solution|answer|it)\b\W{0,4}(?:is\b\W{0,4})?"
    r"(not\s+)?(right|wrong)\b",
    re.IGNORECASE,
)
_CAPITAL = re.compile(r"\b(?:(?i:(not)\s+))?(RIGHT|WRONG)\b")
_MAX_READ = 2000


async def review(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the finding and the comment. A reply without a finding counts as not right."""
    values = {name: text_in(arguments, name) for name in ("problem", "solution")}
    reply = await context.ask(prompt_file("review"), values)
    found = finding(reply)
    if found is None:
        context.note("the review says neither RIGHT nor WRONG, or both")
    return {"review_result": found is True, "feedback": ReplyText(reply.strip())}


def finding(reply: str) -> bool | None:
    """Return whether a review finds the solution right; None if it does not say."""
    first = _FIRST.match(reply)
    if first is not None:
        return first[1].upper() == "RIGHT"
    read = reply[:_MAX_READ]
    found = {
        (one[1].upper() == "RIGHT") != bool(one[0])
        for form in (_SAID, _CAPITAL)
        for one in form.findall(read)
    }
    return found.pop() if len(found) == 1 else None
