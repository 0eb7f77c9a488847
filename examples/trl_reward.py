"""Reward functions for TRL's GRPOTrainer, scored by Assay's reward service. See README.md.

trainer = GRPOTrainer(reward_funcs=AssayReward("math", label="answer"), ...)
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from assay_shared.clients import RetryBudget, RewardClient, Timeouts
from assay_shared.clients.batching import score_answers
from assay_shared.clients.labels import Label, task_from_label
from assay_shared.errors import InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import AnswerText, Scored

Rewards = list[float | None]
RewardFunction = Callable[..., Rewards | Awaitable[Rewards]]
_RETRIES = 10_000  # time is what bounds them
_ATTEMPT_S = 600.0


class AssayReward:
    """One request for a whole batch; None for a completion without a score.

    TRL leaves such a completion out of its group's mean and deviation, and gives it advantage 0,
    as long as this is the only reward function. With others, use `AllOrNothing`.
    """

    def __init__(
        self,
        rubric: str | None = None,
        *,
        url: str = "http://127.0.0.1:8004",
        label: str | None = "label",
        give_up_after_s: float = 60.0,
    ) -> None:
        """
        Args:
            rubric: of the reward service; None takes the rubric named by each label.
            label: the column of right answers: a reference, or fields of a task as JSON;
                None if the rubric needs neither.
            give_up_after_s: seconds of retries for failed answers.
        """
        self.__name__ = f"assay_{rubric or 'reward'}"
        self._rubric = rubric
        self._url = url
        self._label = label
        self._give_up_after_s = give_up_after_s

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> Rewards:
        """
        Raises:
            InvalidInput: a label or rubric is unusable.
            InfrastructureError: the service is gone for longer than `give_up_after_s`.
        """
        if self._label is not None and self._label not in columns:
            raise InvalidInput(f"the dataset has no column {self._label!r}", field="label")
        labels: Sequence[Label] = columns.get(self._label or "", [None] * len(prompts))
        answers = [
            (task_from_label(question(prompt), label, self._rubric), answer(completion))
            for prompt, completion, label in zip(prompts, completions, labels, strict=True)
        ]
        token = ServiceSettings().token_of("reward")
        async with RewardClient(
            self._url,
            token=token,
            timeouts=Timeouts(read_s=_ATTEMPT_S, total_s=_ATTEMPT_S),
            retry=RetryBudget(attempts=_RETRIES, total_s=self._give_up_after_s),
        ) as rewarder:
            rewards = await score_answers(rewarder, answers, give_up_after_s=self._give_up_after_s)
        values = [reward.value if isinstance(reward, Scored) else None for reward in rewards]
        if "log_metric" in columns:
            columns["log_metric"]("assay/failed", values.count(None) / len(values))
        return values


class AllOrNothing:
    """A reward function of several: their weighted sum, or None if any of them has None.

    Otherwise TRL adds up the rewards it has, as if a missing reward were 0.
    """

    def __init__(self, functions: dict[RewardFunction, float]) -> None:
        """
        Args:
            functions: each with its weight.
        """
        self.__name__ = "_".join(getattr(one, "__name__", "reward") for one in functions)
        self._functions = functions

    async def __call__(self, **arguments: Any) -> Rewards:
        columns = []
        for function in self._functions:
            rewards = function(**arguments)
            columns.append(await rewards if inspect.isawaitable(rewards) else rewards)
        weights = self._functions.values()
        return [
            None
            if any(value is None for value in row)
            else sum(weight * value for weight, value in zip(weights, row, strict=True))
            for row in zip(*columns, strict=True)
        ]


def question(prompt: Any) -> str:
    """Return the prompt's text; of a conversation, the user's last message."""
    if isinstance(prompt, str):
        return prompt
    said = [message["content"] for message in prompt if message["role"] == "user"]
    return said[-1] if said else ""


def answer(completion: Any) -> AnswerText:
    """Return the completion's text; of a conversation, all of the policy's messages."""
    if isinstance(completion, str):
        return completion
    said = [m["content"] or "" for m in completion if m["role"] == "assistant"]
    return tuple(said[-64:]) if len(said) > 1 else "".join(said)
