"""Short answers: clear cases are decided by the references, all others by a judge."""

from dataclasses import dataclass

from assay_reward.instruments import ComponentUsage
from assay_reward.verifiers.exact_match import references_of
from assay_reward.verifiers.judged import AskJudge, decided, judge
from assay_reward.verifiers.verifier import AnswerContext, GroupContext, Measurement, Verifier
from assay_shared.answers.certainty import certainly_same
from assay_shared.answers.extraction import Extract, extract
from assay_shared.settings.run_file import Config
from assay_shared.types import Failure, JudgeForm, Judgement, Status, Task


class QAOptions(Config):
    """`extract`: the part to compare with the references. `template`: a prompt of the judge."""

    extract: Extract = Extract.WHOLE
    template: str | None = None


@dataclass(frozen=True)
class _AskForOpen:
    """A request to the judge for the answers not decided by words."""

    options: QAOptions

    async def __call__(self, group: GroupContext, meter: ComponentUsage) -> dict[int, Judgement]:
        references = references_of(group.task, "qa")
        texts = {index: group.candidate(index, meter).text for index in group.admitted}
        is_open = [
            i for i, text in texts.items() if by_words(text, references, self.options) is None
        ]
        ask = AskJudge(self.options.template)
        return await judge(group, meter, is_open, JudgeForm.BINARY, ask)


async def _qa(candidate: AnswerContext, options: QAOptions) -> Measurement | Failure:
    """Return 1 for a right answer, else 0; the detail names the decider."""
    references = references_of(candidate.task, "qa")
    found = by_words(candidate.text, references, options)
    if found is not None:
        return found
    return decided(await candidate.once_for_all(_AskForOpen(options)))


def by_words(text: str, references: tuple[str, ...], options: QAOptions) -> Measurement | None:
    """Return the measurement of an answer decided without a judge, else None.

    An empty answer is wrong. An answer is right if it differs from a reference only by case,
    articles and closing marks, or is the same number.
    """
    given = extract(text, options.extract)
    if not given:
        return Measurement(0.0, Status.WRONG_ANSWER, "empty, by words")
    if any(certainly_same(given, reference) for reference in references):
        return Measurement(1.0, Status.ACCEPTED, "exact match")
    return None


def _has_reference(task: Task, options: QAOptions) -> None:
    references_of(task, "qa")


QA = Verifier(_qa, QAOptions, _has_reference)
