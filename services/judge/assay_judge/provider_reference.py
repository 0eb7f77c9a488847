"""Decides without a model: the answer is surely the reference, or it is wrong."""

from assay_judge.forms import Ask, Finding
from assay_judge.provider import Asking
from assay_shared.answers.equality import NeedsProof, settled
from assay_shared.errors import JudgeFault
from assay_shared.types import JudgeForm, JudgeRequest, Label


class MissingReference(JudgeFault):
    """There is nothing to compare with: asking again cannot help."""

    retryable = False


class ReferenceProvider:
    """Implements `assay_judge.provider.Provider`. Deterministic; knows no paraphrase."""

    forms = frozenset({JudgeForm.BINARY})
    has_prompt = False
    is_open = False

    def __init__(self, name: str) -> None:
        self.name = name

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def find(self, request: JudgeRequest, index: int, ask: Ask, asking: Asking) -> Finding:
        if request.reference is None:
            raise MissingReference("there is no reference to compare with")
        same = equal(request.answers[index], request.reference)
        return Finding(
            Label.CORRECT if same else Label.INCORRECT, "compared with the reference", 1.0
        )


def equal(answer: str, reference: str) -> bool:
    """Whether they are surely the same value or words."""
    try:
        return settled(answer, reference) is True
    except NeedsProof:
        return False
