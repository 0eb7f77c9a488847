"""Policies that take no skill: what they earn is what a rubric gives away."""

import random
from collections.abc import Callable

from assay_shared.types import Answer, Task
from assay_trainer.corpus import Corpus

TrivialPolicy = Callable[[Task, Corpus], Answer]

_NUM_CHOICES = 16


def _random_gold(task: Task, corpus: Corpus) -> str:
    others = corpus.others(task, _NUM_CHOICES)
    return random.Random(task.id).choice(others) if others else ""


_ONE_ANSWER: dict[str, TrivialPolicy] = {
    "empty": lambda task, _: "",
    "most frequent gold": lambda task, corpus: corpus.most_frequent(task),
    "another row's gold": _random_gold,
    "longest gold": lambda task, corpus: corpus.longest(task),
    "copy of the prompt": lambda task, _: task.prompt,
    "I don't know": lambda task, _: "I don't know.",
}

#: By the environment that a task is played in, "" for tasks of one answer. What plays in an
#: environment gives its turns.
TRIVIAL_POLICIES: dict[str, dict[str, TrivialPolicy]] = {"": _ONE_ANSWER}


def policies_for(task: Task) -> dict[str, TrivialPolicy]:
    """The trivial policies that can play a task; those of one answer where none are its own."""
    name = task.environment.name if task.environment else ""
    return TRIVIAL_POLICIES.get(name, _ONE_ANSWER)
