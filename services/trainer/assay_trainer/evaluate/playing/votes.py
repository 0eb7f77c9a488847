"""Final answers of a task's samples, and which of them are equal."""

from collections.abc import Iterable, Sequence

from assay_shared.answers.choices.votes import is_same_vote, vote_of
from assay_shared.types import Task
from assay_trainer.evaluate.sets import OpenSet
from assay_trainer.evaluate.store import EvaluationStore
from assay_trainer.evaluation.records.sample_record import SampleRecord


def with_votes(
    task: Task, samples: Sequence[SampleRecord], before: Iterable[str | None] = ()
) -> list[SampleRecord]:
    """Return the samples with their final answers; equal ones have the text of the first.

    `before` are the votes of the task's other samples: an equal answer has their text. A sample
    without a score has no vote, nor has an answer that names none. Formulas that only a proof
    could show as equal count as different.
    """
    seen = [one for one in before if one is not None]
    found = []
    for sample in samples:
        answer = None if sample.outcome is None else vote_of(task, sample.text)
        if answer is not None:
            answer = next((one for one in seen if is_same_vote(one, answer)), answer)
            if answer not in seen:
                seen.append(answer)
        found.append(sample.model_copy(update={"vote": answer}))
    return found


def settle_votes(store: EvaluationStore, opened: OpenSet) -> None:
    """Store the votes of a set as if all samples of each task had been played at once."""
    stored = store.folder.read_set(store.facts(opened.name))
    by_task = stored.by_task
    voted = [one for task in opened.tasks for one in with_votes(task, by_task[task.id])]
    if voted != list(stored.samples):
        store.folder.replace_samples(opened.name, voted)
