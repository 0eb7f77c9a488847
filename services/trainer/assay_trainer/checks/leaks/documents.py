"""Tasks as words to compare."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assay_shared.types import Task
from assay_trainer.checks.leaks.findings import LeakPart
from assay_trainer.data.words import words_of


@dataclass(frozen=True)
class Document:
    """The words of a task, by part. All of them would be trained on."""

    task_id: str
    parts: Mapping[LeakPart, list[str]]

    @property
    def words(self) -> list[str]:
        return self.parts[LeakPart.PROMPT] + self.parts[LeakPart.GOLD]


class Reader:
    """Turns tasks into documents.

    The prompt includes the history. If tasks of an environment share a held-out prompt and differ
    only in their instance, the instance counts as a part of the prompt.
    """

    def __init__(self, held_out: Iterable[Task], training: Iterable[Task]) -> None:
        instances: dict[str, set[int]] = defaultdict(set)
        for task in held_out:
            if task.environment is not None:
                instances[_prompt(task)].add(hash(_instance(task)))
        for task in training:
            if task.environment is not None and (prompt := _prompt(task)) in instances:
                instances[prompt].add(hash(_instance(task)))
        self._ambiguous = {prompt for prompt, found in instances.items() if len(found) > 1}

    def text(self, task: Task, part: LeakPart) -> str:
        if part is LeakPart.GOLD:
            return task.gold or ""
        prompt = _prompt(task)
        return f"{prompt}\n{_instance(task)}" if prompt in self._ambiguous else prompt

    def document(self, task: Task) -> Document:
        return Document(task.id, {part: words_of(self.text(task, part)) for part in LeakPart})


def _prompt(task: Task) -> str:
    return "\n".join([*(message.content for message in task.history), task.prompt])


def _instance(task: Task) -> str:
    return task.environment.model_dump_json() if task.environment is not None else ""
