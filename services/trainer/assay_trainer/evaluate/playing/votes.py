"""Final answers of a task's samples, and which of them are equal."""

from collections.abc import Sequence

from assay_shared.answers.choices.choice import chosen_letter
from assay_shared.answers.choices.options import options_of
from assay_shared.answers.equality import NeedsProof, settled
from assay_shared.answers.extraction import final_answer
from assay_shared.types import Task
from assay_trainer.evaluation.records.sample_record import SampleRecord


def with_votes(task: Task, samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """Return the samples with their final answers; equal ones have the text of the first.

    A sample without a score has no vote, nor has an answer that names none. Formulas that only a
    proof could show as equal count as different.
    """
    seen: list[str] = []
    found = []
    for sample in samples:
        answer = None if sample.outcome is None else _answer(task, sample.text)
        if answer is not None:
            answer = next((one for one in seen if _equal(one, answer)), answer)
            if answer not in seen:
                seen.append(answer)
        found.append(sample.model_copy(update={"vote": answer}))
    return found


def _answer(task: Task, text: str) -> str | None:
    choice = task.checks.get("choice")
    if isinstance(choice, dict) and isinstance(choice.get("options"), list):
        options = tuple(str(one) for one in choice["options"])  # type: ignore[union-attr]
        return chosen_letter(text, options_of(options))
    return final_answer(text)


def _equal(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return settled(other, one) is True
    except NeedsProof:
        return False
