"""A provider without a model: an answer is right if it is provably equal to the reference."""

from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_judge.providers.provider import JudgeCall
from assay_shared.answers.certainty import certainly_same
from assay_shared.answers.question import asked_for
from assay_shared.errors import JudgeFault
from assay_shared.types import JudgeForm, JudgeRequest, Label


class MissingReference(JudgeFault):
    """The request has no usable reference: asking again cannot help."""

    retryable = False


class ReferenceProvider:
    """Comparison with the reference. Implements `assay_judge.providers.provider.Provider`.

    It is deterministic and does not recognise a paraphrase.
    """

    forms = frozenset({JudgeForm.BINARY, JudgeForm.PAIRWISE})
    has_prompt = False
    is_open = False

    def __init__(self, name: str) -> None:
        self.name = name

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def find(
        self, request: JudgeRequest, index: int, ask: JudgePrompt, asking: JudgeCall
    ) -> ParsedReply:
        is_pair = request.form is JudgeForm.PAIRWISE
        if is_pair and request.answers[0] == request.answers[1]:
            return ParsedReply(None, "the answers are equal", 1.0)
        if request.reference is None:
            raise MissingReference("there is no reference to compare with")
        if is_pair:
            return _better(request)
        same = _equal(request, request.answers[index], request.reference)
        return ParsedReply(
            Label.CORRECT if same else Label.INCORRECT, "compared with the reference", 1.0
        )


def _better(request: JudgeRequest) -> ParsedReply:
    """Return the answer equal to the reference, or a tie if both are equal to it.

    Raises:
        MissingReference: neither answer is equal to the reference.
    """
    assert request.reference is not None
    right = [
        index
        for index, answer in enumerate(request.answers)
        if _equal(request, answer, request.reference)
    ]
    if not right:
        raise MissingReference("neither answer is the reference: only a model can compare them")
    return ParsedReply(right[0] if len(right) == 1 else None, "compared with the reference", 1.0)


def _equal(request: JudgeRequest, answer: str, reference: str) -> bool:
    """Return True if answer and reference are certainly the same value or words."""
    return certainly_same(answer, asked_for(reference, request.question, answer))
