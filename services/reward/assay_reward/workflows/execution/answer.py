"""The answer of a workflow: what the executor wrote of the returned text."""

import re
from typing import Final

from assay_reward.workflows.operators.support.faults import FaultKind, WorkflowFault
from assay_reward.workflows.operators.support.texts import OWN, REPLY, ReplyText, origins_of
from assay_shared.text.blank import says_nothing

#: A box that the workflow fills itself: left empty, it would hide the executor's answer.
_OWN_BOX: Final = re.compile(r"\\boxed\{[^{}]*\}")
_RUNS: Final = re.compile(rb"r+|o+|n+")
#: What a workflow may write around an answer: marks of its place. They answer nothing.
_MARKS: Final = re.compile(
    r"\s+|####|\\boxed\{|[{}$]|\*\*|```(?:python\b)?"
    r"|\b(?:the\s+)?(?:final\s+)?answer(?:\s+is\b)?\s*:?",
    re.IGNORECASE,
)


def answer_of(returned: str) -> str:
    """Return the part of a returned text that is scored: the executor's, and marks around it.

    Otherwise a policy could write the answer itself next to any reply.

    Raises:
        WorkflowFault: the executor wrote nothing of the text.
    """
    origins = origins_of(returned)
    parts, replies = [], []
    for run in _RUNS.finditer(origins):
        text, origin = returned[run.start() : run.end()], run[0][:1]
        if origin == REPLY:
            replies.append(text)
        parts.append(_marks(text) if origin == OWN else text)
    is_empty = says_nothing("".join(replies)) and bool(returned.strip())
    if is_empty or not isinstance(returned, ReplyText):
        raise WorkflowFault(
            FaultKind.ANSWER,
            "the answer holds nothing that the executor wrote; return the result of an operator",
        )
    return "".join(parts)


def has_own_words(returned: str) -> bool:
    """Return True if a part of a returned text is not scored."""
    return isinstance(returned, ReplyText) and answer_of(returned) != returned


def _marks(text: str) -> str:
    """Return the marks of the workflow's own text; a space if it has none."""
    return "".join(_MARKS.findall(_OWN_BOX.sub(" ", text))) or " "
