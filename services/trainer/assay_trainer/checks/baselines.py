"""Rewards of policies without skill under a rubric, next to the gold answers."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay_shared.clients.batching import BatchRewarder
from assay_shared.statistics.bootstrap import mean_interval
from assay_shared.statistics.interval import Interval, wilson_interval
from assay_shared.types import Answer, AnswerText, Scored, ScoreRequest, Status, Task
from assay_trainer.checks.rewards import GOLD, estimated_tokens, rewards_of, score_all
from assay_trainer.checks.wrong_answers import Corpus

TrivialPolicy = Callable[[Task, Corpus], AnswerText]


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
    """Return the trivial policies of a task's environment; by default, those of single answers."""
    name = task.environment.name if task.environment else ""
    return TRIVIAL_POLICIES.get(name, _ONE_ANSWER)


_CONFIDENCE = 0.95


@dataclass
class BaselineEarnings:
    """Earnings of a policy: a reward for each measured task."""

    rewards: list[float] = field(default_factory=list)
    is_accepted: list[bool] = field(default_factory=list)
    num_failures: int = 0

    def reward(self, seed: int = 0) -> Interval:
        """Return the mean with a bootstrap interval over tasks.

        Raises:
            ValueError: nothing could be measured.
        """
        return mean_interval(self.rewards, _CONFIDENCE, seed)

    def accepted(self) -> Interval:
        """Return the share of right answers, with Wilson's interval.

        Raises:
            ValueError: nothing was measured.
        """
        return wilson_interval(sum(self.is_accepted), len(self.is_accepted), _CONFIDENCE)


async def audit(
    tasks: Sequence[Task],
    rewarder: BatchRewarder,
    rubric: str | None = None,
    on_scored: Callable[[int], None] = lambda num_tasks: None,
) -> dict[str, BaselineEarnings]:
    """Return the earnings of each policy, the gold answers first."""
    corpus = Corpus(tasks)
    answers = [_answers(task, corpus) for task in tasks]
    requests = [_request(*pair, rubric) for pair in zip(tasks, answers, strict=True)]
    responses = await score_all(requests, rewarder, on_scored)
    earnings: dict[str, BaselineEarnings] = defaultdict(BaselineEarnings)
    for given, response in zip(answers, responses, strict=True):
        for policy, reward in zip(given, rewards_of(response, len(given)), strict=True):
            if isinstance(reward, Scored):
                earnings[policy].rewards.append(reward.value)
                earnings[policy].is_accepted.append(reward.outcome is Status.ACCEPTED)
            else:
                earnings[policy].num_failures += 1
    return dict(earnings)


def _answers(task: Task, corpus: Corpus) -> dict[str, AnswerText]:
    gold: dict[str, AnswerText] = {} if task.gold is None else {GOLD: task.gold}
    return gold | {name: play(task, corpus) for name, play in policies_for(task).items()}


def _request(task: Task, answers: dict[str, AnswerText], rubric: str | None) -> ScoreRequest:
    given = tuple(
        Answer(text=text, num_tokens=estimated_tokens("".join(text))) for text in answers.values()
    )
    return ScoreRequest(task=task, answers=given, rubric=rubric)
