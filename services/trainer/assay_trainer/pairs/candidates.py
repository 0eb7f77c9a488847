"""The tasks of stored evaluations with their pairs, and the tasks that may not be trained on."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from assay_shared.errors import InvalidInput
from assay_shared.types import Role, Task
from assay_trainer.evaluate.sets import asked
from assay_trainer.evaluation.records.folder import (
    EvaluationFolder,
    StoredEvaluation,
    StoredSet,
    read_evaluation,
)
from assay_trainer.evaluation.records.protocol import ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask
from assay_trainer.pairs.choosing import SamplePair, pairs_of
from assay_trainer.pairs.order import ChoiceOrder
from assay_trainer.pairs.unseen import UnseenSettings


@dataclass(frozen=True)
class Candidate:
    """A pair that may be written, with its task as the policy got it, and where it comes from."""

    task: Task
    #: The task's own id, in the set.
    task_id: str
    evaluation: str
    set: str
    samples_file: Path
    #: The task's place in tasks.jsonl, from 1.
    line: int
    pair: SamplePair

    @property
    def prompt_key(self) -> str:
        return f"{self.set}/{self.task_id}"


@dataclass
class Candidates:
    """All pairs of the evaluations, with what came to none: tasks and samples by reason."""

    found: list[Candidate] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    #: Tasks that are not for training: file, line and role of each.
    not_for_training: list[tuple[Path, int, str]] = field(default_factory=list)
    num_tasks: int = 0
    num_scored_tasks: int = 0
    num_samples: int = 0
    #: Files of samples that were read, with their number of samples.
    files: list[tuple[Path, int]] = field(default_factory=list)
    scorers: set[str] = field(default_factory=set)


def read_candidates(folders: tuple[Path, ...], order: ChoiceOrder) -> Candidates:
    """Return the pairs of stored evaluations.

    Raises:
        NotFound, DatasetError: a folder has no evaluation, or cannot be read.
        InvalidInput: an evaluation is unfinished, has no sampled answers, or is given twice; or no
            sample has what an option asks for.
    """
    found, unseen = Candidates(), UnseenSettings(order)
    names = Counter(path.resolve() for path in folders)
    if twice := [path for path, number in names.items() if number > 1]:
        raise InvalidInput(f"{twice[0]} is given twice", field="EVALUATION")
    for path in folders:
        stored = read_evaluation(path)
        _check(stored)
        for one in stored.sets.values():
            unseen.look(one.samples)
            _add_set(found, stored, one, order)
    unseen.check()
    return found


def _check(stored: StoredEvaluation) -> None:
    protocol = stored.record.protocol
    if not stored.is_finished:
        raise InvalidInput(
            f"{stored.path} is not finished",
            field="EVALUATION",
            hint="the same `assay evaluate` again plays what is missing",
        )
    if protocol.kind is ProtocolKind.LIKELIHOOD or protocol.samples_per_task < 2:
        raise InvalidInput(
            f"{stored.path} has one answer a task, and a pair needs two",
            field="EVALUATION",
            hint="assay evaluate --protocol sampled --samples 4",
        )
    if protocol.template_arguments:
        raise InvalidInput(
            f"{stored.path} was sampled with template_arguments, which DPO does not have",
            field="protocol.template_arguments",
        )


def _add_set(
    found: Candidates, stored: StoredEvaluation, one: StoredSet, order: ChoiceOrder
) -> None:
    folder = EvaluationFolder(stored.path)
    name = one.facts.name
    found.files.append((folder.samples(name), len(one.samples)))
    found.num_samples += len(one.samples)
    found.scorers.update(one.facts.scorers)
    by_task = one.by_task
    for line, task in enumerate(one.tasks, start=1):
        found.num_tasks += 1
        if task.role is not Role.TRAIN:
            found.not_for_training.append((folder.tasks(name), line, task.role))
            continue
        if task.is_episode:
            found.dropped["episode"] += 1
            continue
        if task.history is None:
            raise InvalidInput(
                f"{folder.tasks(name)}:{line} does not tell the messages before the prompt: an "
                "earlier version wrote it",
                field="history",
                hint="evaluate into another folder",
            )
        chosen = pairs_of(by_task[task.id], order)
        found.dropped.update(chosen.dropped)
        found.num_scored_tasks += chosen.is_scored
        found.found += _candidates(chosen.pairs, task, line, stored, folder, name)


def _candidates(
    pairs: list[SamplePair],
    task: EvaluatedTask,
    line: int,
    stored: StoredEvaluation,
    folder: EvaluationFolder,
    name: str,
) -> Iterator[Candidate]:
    evaluation = stored.path.resolve().name
    for pair in pairs:
        own = Task(
            id=f"{evaluation}/{name}/{task.id}/{pair.chosen.index}-{pair.rejected.index}",
            dataset=task.dataset,
            role=task.role,
            history=task.history or (),
            prompt=task.prompt,
            prompt_format=task.prompt_format,
            reference=task.reference,
            tags=task.tags,
            gold=pair.chosen.text,
        )
        played = asked(own, stored.record.protocol)
        yield Candidate(played, task.id, evaluation, name, folder.samples(name), line, pair)
