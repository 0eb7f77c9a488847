"""Self-consistency: the most frequent of k direct answers, and its accuracy for any budget.

Of n answers to a task, every k of them are a vote, so one set of answers gives the accuracy of each
k up to n. Between two k, a budget of tokens is met by k answers for some tasks and k + 1 for the
others: the accuracy lies on the line between both.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, floor

from assay_reward.workflows.comparison.candidates import is_code
from assay_reward.workflows.comparison.samples import WorkflowSample
from assay_shared.answers.choices.votes import is_same_vote, vote_of
from assay_shared.types import Task

#: Votes of a task for each k: all of them up to this number, else as many at random.
_MOST_VOTES = 300


@dataclass(frozen=True)
class VotedTask:
    """Direct answers to a task: for each k from 1, the expected accuracy of their vote."""

    accuracies: tuple[float, ...]
    #: Mean tokens, calls, money and seconds of one answer.
    costs: dict[str, float]

    def accuracy(self, num_answers: float) -> float:
        """Return the accuracy of a vote of `num_answers`, from 1 to the number of answers."""
        low = min(floor(num_answers), len(self.accuracies))
        share = num_answers - low
        if share <= 0:
            return self.accuracies[low - 1]
        return (1 - share) * self.accuracies[low - 1] + share * self.accuracies[low]


def voted_task(
    task: Task, samples: Sequence[WorkflowSample], costs: Sequence[str], seed: int
) -> VotedTask | None:
    """Return the votes of a task's scored direct answers; None without any."""
    scored = [one for one in samples if one.is_scored]
    if not scored:
        return None
    votes = _classes(task, scored)
    rng = random.Random(f"{seed}/{task.id}")
    return VotedTask(
        accuracies=tuple(_expected(votes, size, rng) for size in range(1, len(votes) + 1)),
        costs={name: sum(one.measure(name) for one in scored) / len(scored) for name in costs},
    )


def _classes(task: Task, samples: Sequence[WorkflowSample]) -> list[tuple[int | None, bool]]:
    """Return each answer's class of equal answers and whether it is right; None has no vote.

    Equal programs are equal texts, up to whitespace.
    """
    seen: list[str] = []
    found: list[tuple[int | None, bool]] = []
    same = str.__eq__ if is_code(task) else is_same_vote
    for one in samples:
        vote = None
        if one.answer is not None:
            vote = " ".join(one.answer.split()) if is_code(task) else _vote(task, one.answer)
        if vote is None:
            found.append((None, bool(one.is_right)))
            continue
        place = next((at for at, other in enumerate(seen) if same(other, vote)), len(seen))
        if place == len(seen):
            seen.append(vote)
        found.append((place, bool(one.is_right)))
    return found


def _vote(task: Task, answer: str) -> str | None:
    """Return what an answer votes for; an answer without marks is its own last line."""
    found = vote_of(task, answer)
    return found if found is not None else " ".join(answer.split()).casefold() or None


def _expected(votes: Sequence[tuple[int | None, bool]], size: int, rng: random.Random) -> float:
    if comb(len(votes), size) <= _MOST_VOTES:
        drawn = [list(one) for one in combinations(votes, size)]
    else:
        drawn = [rng.sample(votes, size) for _ in range(_MOST_VOTES)]
    return sum(map(_share_right, drawn)) / len(drawn)


def _share_right(votes: Sequence[tuple[int | None, bool]]) -> float:
    """Return the chance that the winner of a vote is right; a tie is broken at random."""
    classes: dict[int, list[bool]] = {}
    for place, is_right in votes:
        if place is not None:
            classes.setdefault(place, []).append(is_right)
    if not classes:
        return sum(is_right for _, is_right in votes) / len(votes)
    most = max(map(len, classes.values()))
    winners = [sum(one) / len(one) for one in classes.values() if len(one) == most]
    return sum(winners) / len(winners)
