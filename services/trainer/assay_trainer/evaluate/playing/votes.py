"""Final answers of a task's samples, and which of them are equal."""

from collections.abc import Sequence

from assay_shared.answers.choices.votes import is_same_vote, vote_of
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
        answer = None if sample.outcome is None else vote_of(task, sample.text)
        if answer is not None:
            answer = next((one for one in seen if is_same_vote(one, answer)), answer)
            if answer not in seen:
                seen.append(answer)
        found.append(sample.model_copy(update={"vote": answer}))
    return found
