"""Short answers: words that match decide by themselves, and a judge decides the rest."""

import re
from dataclasses import dataclass

from pydantic import Field

from assay_reward.extraction import Extract, extract
from assay_reward.measurement import Candidate, Measured, Meter, Sitting, Verifier
from assay_reward.verifiers.exact_match import matched, references_of
from assay_reward.verifiers.f1 import f1
from assay_reward.verifiers.judged import AskJudge, decided, judge
from assay_shared.config import Config
from assay_shared.types import Failure, JudgeForm, Judgement, Status, Task
from assay_shared.words import normalise

_NEGATIONS = re.compile(r"\b(?:not?|never|none|nor|neither|without|isn'?t|wasn'?t|aren'?t)\b")
_DIGITS = re.compile(r"\d+")


class QAOptions(Config):
    """From `f1_from` on, shared words are enough; `template` is the judge's."""

    extract: Extract = Extract.WHOLE
    f1_from: float = Field(default=0.8, gt=0.5, le=1)
    template: str | None = None


@dataclass(frozen=True)
class _AskForOpen:
    """One question to the judge, for those answers that words do not decide."""

    options: QAOptions

    async def __call__(self, sitting: Sitting, meter: Meter) -> dict[int, Judgement]:
        references = references_of(sitting.task, "qa")
        texts = {index: sitting.candidate(index, meter).text for index in sitting.admitted}
        is_open = [
            i for i, text in texts.items() if by_words(text, references, self.options) is None
        ]
        ask = AskJudge(self.options.template)
        return await judge(sitting, meter, is_open, JudgeForm.BINARY, ask)


async def _qa(candidate: Candidate, options: QAOptions) -> Measured | Failure:
    """1 for a right answer, else 0; the detail says who decided."""
    references = references_of(candidate.task, "qa")
    found = by_words(candidate.text, references, options)
    if found is not None:
        return found
    return decided(await candidate.once_for_all(_AskForOpen(options)))


def by_words(text: str, references: tuple[str, ...], options: QAOptions) -> Measured | None:
    """What the words alone decide, if they do: an empty answer is wrong, a reference is right, and
    so is what shares enough words with one, in order, and says the same numbers and negations."""
    given = extract(text, options.extract)
    if not given:
        return Measured(0.0, Status.WRONG_ANSWER, "empty, by words")
    if matched(given, references).value == 1.0:
        return Measured(1.0, Status.ACCEPTED, "exact match")
    for reference in references:
        value = f1(given, reference)
        if value >= options.f1_from and _says_the_same(given, reference):
            return Measured(1.0, Status.ACCEPTED, f"F1 of {value:.2f}")
    return None


def _says_the_same(given: str, reference: str) -> bool:
    """Whether what F1 cannot see is equal: numbers, negations, the order of shared words."""
    for pattern in (_DIGITS, _NEGATIONS):
        both = (sorted(pattern.findall(text.casefold())) for text in (given, reference))
        if next(both) != next(both):
            return False
    words, expected = normalise(given).split(), normalise(reference).split()
    return [w for w in words if w in expected] == [w for w in expected if w in words]


def _has_reference(task: Task, options: QAOptions) -> None:
    references_of(task, "qa")


QA = Verifier(_qa, QAOptions, _has_reference)
