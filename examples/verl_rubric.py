"""Reward functions for verl by a rubric of Assay's reward service. See README.md.

They ask a failing or full service again for `give_up_after_s`; then they raise, since
verl cannot leave an answer out. They never return a made-up score.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from assay_shared.clients import RetryBudget, RewardClient, Timeouts
from assay_shared.clients.batching import score_answers
from assay_shared.clients.labels import Label, task_from_label
from assay_shared.errors import NotReady
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import AnswerText, Reward, Scored, Status, Task

_RETRIES = 10_000  # time is what bounds them
_ATTEMPT_S = 600.0


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Label,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, float]:
    """Return the rubric's reward as `score`, and 1 or 0 for a right answer as `acc`.

    Args:
        ground_truth: a reference, or fields of a task as an object or JSON.
        options: as those of `compute_scores`.

    Raises:
        InvalidInput: a ground truth or rubric is unusable.
        InfrastructureError: the answer could not be scored.
    """
    sample = (data_source, solution_str, ground_truth, extra_info)
    return (await _score([sample], **options))[0]


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Label],
    extra_infos: Sequence[Mapping[str, Any] | None],
    **options: Any,
) -> list[dict[str, float]]:
    """`compute_score` of a whole batch with one request, for verl's `batch` reward manager.

    Args:
        options: `url` of the reward service; `rubric`, or a rubric per data source, in place of the
            ground truths' rubrics; `question`, the key of `extra_info` with the question;
            `give_up_after_s`.

    Raises:
        As `compute_score`: an answer without a score leaves the batch without scores.
    """
    samples = zip(data_sources, solution_strs, ground_truths, extra_infos, strict=True)
    return asyncio.run(_score(list(samples), **options))


async def _score(
    samples: Sequence[tuple[str, str, Label, Mapping[str, Any] | None]],
    *,
    url: str = "http://127.0.0.1:8004",
    rubric: str | Mapping[str, str] | None = None,
    question: str = "question",
    give_up_after_s: float = 300.0,
    reward_router_address: object = None,  # verl's argument for a reward model
    reward_model_tokenizer: object = None,
) -> list[dict[str, float]]:
    answers: list[tuple[Task, AnswerText]] = []
    for source, solution, truth, extra in samples:
        name = rubric.get(source) if isinstance(rubric, Mapping) else rubric
        prompt = str((extra or {}).get(question, ""))
        answers.append((task_from_label(prompt, truth, name, dataset=source), solution))
    token = ServiceSettings().token_of("reward")
    async with RewardClient(
        url,
        token=token,
        timeouts=Timeouts(read_s=_ATTEMPT_S, total_s=_ATTEMPT_S),
        retry=RetryBudget(attempts=_RETRIES, total_s=give_up_after_s),
    ) as rewarder:
        rewards = await score_answers(rewarder, answers, give_up_after_s=give_up_after_s)
    return [_as_scores(reward) for reward in rewards]


def _as_scores(reward: Reward) -> dict[str, float]:
    if not isinstance(reward, Scored):
        failure = reward.failure
        raise NotReady(
            f"no reward: {failure.message}", service=failure.service, attempts=failure.attempts
        )
    return {"score": reward.value, "acc": float(reward.outcome is Status.ACCEPTED)}
