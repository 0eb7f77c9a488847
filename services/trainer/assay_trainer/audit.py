"""What policies without skill would earn by a rubric, beside the gold answers."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay_shared.scoring import BatchRewarder
from assay_shared.types import Answer, Scored, ScoreRequest, Status, Task
from assay_trainer.corpus import Corpus
from assay_trainer.interval import Interval
from assay_trainer.statistics import mean_interval, wilson_interval
from assay_trainer.trivial import policies_for
from assay_trainer.validation import GOLD, estimated_tokens, rewards_of, score_all

_CONFIDENCE = 0.95


@dataclass
class Earnings:
    """What one policy got: a reward for each task that could be measured."""

    rewards: list[float] = field(default_factory=list)
    is_accepted: list[bool] = field(default_factory=list)
    num_failures: int = 0

    def reward(self, seed: int = 0) -> Interval:
        """The mean with a bootstrap interval over tasks.

        Raises:
            ValueError: nothing could be measured.
        """
        return mean_interval(self.rewards, _CONFIDENCE, seed)

    def accepted(self) -> Interval:
        """The share of answers that count as right, with Wilson's interval.

        Raises:
            ValueError: nothing could be measured.
        """
        return wilson_interval(sum(self.is_accepted), len(self.is_accepted), _CONFIDENCE)


async def audit(
    tasks: Sequence[Task],
    rewarder: BatchRewarder,
    rubric: str | None = None,
    on_scored: Callable[[int], None] = lambda num_tasks: None,
) -> dict[str, Earnings]:
    """By policy, the gold answers first."""
    corpus = Corpus(tasks)
    answers = [_answers(task, corpus) for task in tasks]
    requests = [_request(*pair, rubric) for pair in zip(tasks, answers, strict=True)]
    responses = await score_all(requests, rewarder, on_scored)
    earnings: dict[str, Earnings] = defaultdict(Earnings)
    for given, response in zip(answers, responses, strict=True):
        for policy, reward in zip(given, rewards_of(response, len(given)), strict=True):
            if isinstance(reward, Scored):
                earnings[policy].rewards.append(reward.value)
                earnings[policy].is_accepted.append(reward.outcome is Status.ACCEPTED)
            else:
                earnings[policy].num_failures += 1
    return dict(earnings)


def _answers(task: Task, corpus: Corpus) -> dict[str, Answer]:
    gold: dict[str, Answer] = {} if task.gold is None else {GOLD: task.gold}
    return gold | {name: play(task, corpus) for name, play in policies_for(task).items()}


def _request(task: Task, answers: dict[str, Answer], rubric: str | None) -> ScoreRequest:
    given = tuple(answers.values())
    texts = ("".join((one,) if isinstance(one, str) else one) for one in given)
    lengths = tuple(map(estimated_tokens, texts))
    return ScoreRequest(task=task, answers=given, rubric=rubric, num_tokens=lengths)
