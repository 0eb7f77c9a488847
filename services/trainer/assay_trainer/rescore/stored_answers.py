"""The stored answers of a run, with their rewards."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import AnswerText, Reward, Scored, ScoredGroup, Task
from assay_trainer.evaluation.evaluator import EvaluationSample, TaskEvaluation, TaskResult
from assay_trainer.rollouts.rollout_log import read_rollouts

ROLLOUTS = "rollouts"
FAILED = "failed"


@dataclass(frozen=True)
class Mark:
    """A reward and its outcome; neither for an answer without a score."""

    value: float | None
    outcome: str = FAILED


@dataclass(frozen=True)
class StoredGroup:
    """Answers to a task, and their marks from `scorer`.

    `source` is `rollouts`, or the name of an evaluation.
    """

    source: str
    key: str
    task: Task
    answers: tuple[AnswerText, ...]
    marks: tuple[Mark, ...]
    scorer: str


@dataclass
class StoredAnswers:
    """All groups of a run, and the number of answers left out by reason."""

    groups: list[StoredGroup] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def num_answers(self) -> int:
        return sum(len(group.answers) for group in self.groups)

    def add(
        self,
        group: StoredGroup,
        lacks: list[str | None],
    ) -> None:
        """Keep the complete answers; count the missing parts of the others."""
        self.left_out.update(reason for reason in lacks if reason is not None)
        kept = [index for index, reason in enumerate(lacks) if reason is None]
        if kept:
            answers = tuple(group.answers[index] for index in kept)
            marks = tuple(group.marks[index] for index in kept)
            self.groups.append(
                StoredGroup(group.source, group.key, group.task, answers, marks, group.scorer)
            )


def read_stored(folder: RunFolder) -> StoredAnswers:
    """Return the content of `rollouts.jsonl` and the evaluations; skip an unfinished line.

    Raises:
        DatasetError: a file cannot be read; names the line.
    """
    stored = StoredAnswers()
    for trained in read_rollouts(folder.rollouts):
        if trained.superseded:  # a resumed run has done the step again
            stored.left_out["superseded"] += len(trained.group.rollouts)
        else:
            _add_rollout(stored, trained)
    _add_evaluations(stored, folder)
    return stored


def _add_rollout(stored: StoredAnswers, scored: ScoredGroup) -> None:
    rollouts, task = scored.group.rollouts, scored.group.task
    rewards: list[Reward | None] = [*scored.rewards] or [None] * len(rollouts)
    answers = tuple(rollout.answer for rollout in rollouts)
    # An episode without a reward may have broken off: its turns are not a whole answer.
    lacks = [
        "unfinished episode" if task.environment and not isinstance(reward, Scored) else None
        for reward in rewards
    ]
    marks = tuple(_mark(reward) for reward in rewards)
    stored.add(StoredGroup(ROLLOUTS, scored.group.key, task, answers, marks, scored.scorer), lacks)


def _mark(reward: Reward | None) -> Mark:
    return Mark(reward.value, reward.outcome) if isinstance(reward, Scored) else Mark(None)


def _add_evaluations(stored: StoredAnswers, folder: RunFolder) -> None:
    paths = sorted(folder.evaluation("any").parent.glob("*.json"))
    tasks = {task.id: task for task in _tasks(folder.tasks)} if paths else {}
    for path in paths:
        try:
            evaluation = TaskEvaluation.model_validate_json(path.read_text())
        except ValidationError as error:
            raise _unreadable(str(path), error) from None
        for result in evaluation.results:
            _add_result(stored, evaluation.name, result, tasks.get(result.task_id))


def _tasks(path: Path) -> Iterator[Task]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            yield Task.model_validate_json(line)
        except ValidationError as error:
            raise _unreadable(f"{path}:{number}", error) from None


def _add_result(stored: StoredAnswers, name: str, result: TaskResult, task: Task | None) -> None:
    samples = result.samples
    if task is None:
        stored.left_out["unknown task"] += len(samples)
        return
    marks = tuple(
        Mark(None) if one.outcome is None else Mark(one.reward, one.outcome) for one in samples
    )
    answers = tuple(_said(sample) for sample in samples)
    lacks = [_lack(sample, task) for sample in samples]
    key = f"{name}/{task.id}"
    stored.add(StoredGroup(name, key, task, answers, marks, task.rubric), lacks)


def _said(sample: EvaluationSample) -> AnswerText:
    return tuple(reply for reply, _ in sample.turns) if sample.turns else sample.text


def _lack(sample: EvaluationSample, task: Task) -> str | None:
    if sample.outcome is None and task.environment is not None:
        return "unfinished episode"
    if task.environment is not None and not sample.turns:
        return "turns are not kept"
    return "no answer" if sample.outcome is None and not sample.text else None


def _unreadable(where: str, error: ValidationError) -> DatasetError:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"])) or None
    return DatasetError(f"{where}: {first['msg']}", field=name)
