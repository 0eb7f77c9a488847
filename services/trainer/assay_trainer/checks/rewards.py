"""Proof of rewards: right answers get the highest reward, and no other answers do."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from assay_shared.clients import RewardClient, Timeouts
from assay_shared.clients.batching import BatchRewarder, score_groups
from assay_shared.errors import DatasetError, InternalFault
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import (
    Answer,
    FailureClass,
    GroupFailed,
    Reward,
    RubricInfo,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Task,
    Unscored,
)
from assay_trainer.checks.wrong_answers import WRONG_ANSWERS, Corpus
from assay_trainer.config import ValidationConfig

GOLD = "gold"
KINDS = (GOLD, *WRONG_ANSWERS)
_ROUNDING = 1e-9
_BATCH_GROUPS = 32
_ATTEMPT_S = 600.0
#: What a retry can help is asked for again for so long; less where a run waits for it.
GIVE_UP_AFTER_S = 30.0
_RUN_GIVES_UP_AFTER_S = 5.0


class Prover(BatchRewarder, Protocol):
    """The methods of the reward service used here."""

    async def rubrics(self) -> list[RubricInfo]: ...


class RewardFinding(StrEnum):
    """Outcome of an answer. A failure is neither right nor wrong: nothing was measured."""

    AS_EXPECTED = "as expected"
    EXCEPTION = "exception"
    FAILURE = "failure"


@dataclass(frozen=True)
class Check:
    """An answer to a task. `highest` is the rubric's highest reward."""

    task: Task
    kind: str
    answer: str
    reward: Reward
    highest: float

    @property
    def finding(self) -> RewardFinding:
        if not isinstance(self.reward, Scored):
            unusable = is_unusable(self.reward)
            return RewardFinding.EXCEPTION if unusable else RewardFinding.FAILURE
        is_highest = self.reward.value >= self.highest - _ROUNDING
        return (
            RewardFinding.AS_EXPECTED
            if is_highest == (self.kind == GOLD)
            else RewardFinding.EXCEPTION
        )

    def row(self) -> dict[str, object]:
        """Return the result as JSON."""
        return {
            "task_id": self.task.id,
            "kind": self.kind,
            "finding": self.finding,
            "highest": self.highest,
            "reward": self.reward.model_dump(mode="json"),
            "answer": self.answer,
        }


def is_unusable(reward: Unscored) -> bool:
    """Return True if the task lacks data needed by its rubric: nobody can score it."""
    failure = reward.failure
    lasting = (FailureClass.CALLER, FailureClass.INTERNAL)
    return failure.failure_class in lasting and not failure.retryable


@dataclass(frozen=True)
class Validation:
    """All answers to all checked tasks."""

    checks: list[Check]

    def of_kind(self, kind: str) -> list[Check]:
        return [check for check in self.checks if check.kind == kind]

    def found(self, finding: RewardFinding) -> list[Check]:
        return [check for check in self.checks if check.finding is finding]

    @property
    def num_measured(self) -> int:
        """Return the number of tasks with a measured answer, or unusable by their rubric."""
        return len({c.task.id for c in self.checks if c.finding is not RewardFinding.FAILURE})

    @property
    def num_bad(self) -> int:
        """Tasks with an exception."""
        return len({check.task.id for check in self.found(RewardFinding.EXCEPTION)})

    @property
    def bad_share(self) -> float:
        """Return the share of bad tasks among the measured tasks.

        Raises:
            InternalFault: no task was measured.
        """
        if not self.num_measured:
            first = self.found(RewardFinding.FAILURE)[0].reward
            assert isinstance(first, Unscored)
            raise InternalFault(f"no task could be measured: {first.failure.message}")
        return self.num_bad / self.num_measured

    def refuse(self, max_bad_share: float) -> None:
        """Compare the share of bad tasks with its limit.

        Raises:
            DatasetError: more tasks have an exception; names the first.
        """
        if self.bad_share <= max_bad_share:
            return
        first = self.found(RewardFinding.EXCEPTION)[0]
        raise DatasetError(
            f"{self.num_bad} of {self.num_measured} tasks have rewards that cannot be trusted: "
            f"{first.task.id} first, {first.kind}",
            field="data.validation.max_bad_share",
            hint="assay validate shows them all",
        )

    def counts(self) -> dict[str, int]:
        """Return the counts for the run's record."""
        findings = {one.name.lower(): len(self.found(one)) for one in RewardFinding}
        return findings | {"num_tasks": self.num_measured, "num_bad": self.num_bad}

    def write(self, path: Path) -> None:
        """Write every exception and every failure as a JSON line."""
        odd = (check for check in self.checks if check.finding is not RewardFinding.AS_EXPECTED)
        path.write_text("".join(json.dumps(check.row()) + "\n" for check in odd))


async def validate(
    tasks: Sequence[Task],
    corpus: Corpus,
    rewarder: Prover,
    rubric: str | None = None,
    on_scored: Callable[[int], None] = lambda num_tasks: None,
    give_up_after_s: float | None = None,
) -> Validation:
    """Score each task's gold answer together with wrong answers; `corpus` has the other rows.

    Raises:
        InfrastructureError: the reward service cannot be reached.
    """
    highest = {info.name: info.highest for info in await rewarder.rubrics()}
    answers = [_answers(task, corpus) for task in tasks]
    requests = [_request(*pair, rubric) for pair in zip(tasks, answers, strict=True)]
    responses = await score_all(requests, rewarder, on_scored, give_up_after_s)
    checks = []
    for task, given, response in zip(tasks, answers, responses, strict=True):
        most = highest.get(rubric or task.rubric, 1.0)
        rewards = rewards_of(response, len(given))
        for (kind, answer), reward in zip(given.items(), rewards, strict=True):
            checks.append(Check(task, kind, answer, reward, most))
    return Validation(checks)


def open_prover(settings: ServiceSettings) -> RewardClient:
    """Return a client with timeouts for batches of many answers."""
    timeouts = Timeouts(read_s=_ATTEMPT_S, total_s=_ATTEMPT_S)
    return RewardClient.from_settings(settings, timeouts=timeouts)


async def score_all(
    requests: Sequence[ScoreRequest],
    rewarder: BatchRewarder,
    on_scored: Callable[[int], None],
    give_up_after_s: float | None = None,
) -> list[ScoreResponse | GroupFailed]:
    """Return a response per request, in order."""
    return await score_groups(
        rewarder,
        requests,
        give_up_after_s=GIVE_UP_AFTER_S if give_up_after_s is None else give_up_after_s,
        batch_size=_BATCH_GROUPS,
        on_scored=on_scored,
    )


def estimated_tokens(text: str) -> int:
    """Return about a token per four bytes: near enough for rubrics with limits in the thousands."""
    return len(text.encode()) // 4 + 1


def prove(
    sets: Sequence[Sequence[Task]], config: ValidationConfig, settings: ServiceSettings, seed: int
) -> Validation:
    """Validate tasks drawn from each set through the running reward service."""

    async def run() -> Validation:
        checks = []
        async with open_prover(settings) as client:
            for tasks in sets:
                chosen = random.Random(seed).sample(tasks, min(config.sample, len(tasks)))
                corpus = Corpus(tasks)
                found = await validate(
                    chosen, corpus, client, give_up_after_s=_RUN_GIVES_UP_AFTER_S
                )
                checks += found.checks
        return Validation(checks)

    return asyncio.run(run())


def known_rubrics(settings: ServiceSettings) -> dict[str, RubricInfo]:
    """Return the running reward service's rubrics by name.

    Raises:
        InfrastructureError: it cannot be reached.
    """

    async def ask() -> dict[str, RubricInfo]:
        async with open_prover(settings) as client:
            return {info.name: info for info in await client.rubrics()}

    return asyncio.run(ask())


def _answers(task: Task, corpus: Corpus) -> dict[str, str]:
    """Return the gold answer and the wrong answers, by kind."""
    wrong = {kind: make(task, corpus) for kind, make in WRONG_ANSWERS.items()}
    every = {GOLD: task.gold} | wrong
    return {kind: answer for kind, answer in every.items() if answer is not None}


def _request(task: Task, answers: dict[str, str], rubric: str | None) -> ScoreRequest:
    given = tuple(Answer(text=text, num_tokens=estimated_tokens(text)) for text in answers.values())
    return ScoreRequest(task=task, answers=given, rubric=rubric)


def rewards_of(response: ScoreResponse | GroupFailed, num_answers: int) -> Sequence[Reward]:
    """Return a reward for each answer; for a failed group, its failure."""
    if isinstance(response, GroupFailed):
        return [Unscored(failure=response.failure)] * num_answers
    return response.rewards
