"""Faults of a workflow itself: each is an outcome with a score, never a failure of the sample."""

from enum import StrEnum


class FaultKind(StrEnum):
    """What a workflow did wrong while it ran.

    The first ones name a spent budget. `text`: a value is too long. `value`: a value does not fit
    its use. `answer`: the answer holds nothing of a reply.
    """

    CALLS = "calls"
    PROGRAMS = "programs"
    TOKENS = "tokens"
    DEPTH = "depth"
    STEPS = "steps"
    TEXT = "text"
    VALUE = "value"
    ANSWER = "answer"


class WorkflowFault(Exception):
    """The workflow, as the policy wrote it, cannot continue."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
