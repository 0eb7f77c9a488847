"""Workflows as the reward service plays and scores them: a record for each sample."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import Field, JsonValue, NonNegativeInt

from assay_reward.workflows.playing.played import PREFIX
from assay_shared.clients import RewardClient
from assay_shared.errors import InfrastructureError, Unreachable, to_failure
from assay_shared.types import Answer, Reward, Scored, ScoreRequest, Status, Task, Unscored
from assay_shared.types.wire import ShownText, Wire

#: A request scores at most this number of answers.
MAX_ANSWERS = 256
_MAX_MESSAGE = 300


class WorkflowSample(Wire):
    """A workflow's run on a task. Without a score, `failure` names the class of the failure."""

    #: The candidate's name, and the sample's place among its samples of the task.
    candidate: str
    index: NonNegativeInt
    #: Whether the answer is right by the task's own rubric, and the reward of the workflow.
    is_right: bool | None = None
    reward: float | None = None
    failure: str | None = None
    message: ShownText = ""
    #: The workflow's own answer; null without one.
    answer: str | None = None
    #: Rates and costs, by the names of the environment's measures without their prefix.
    measures: dict[str, float] = Field(default={})
    #: The run with its trace, for the first tasks alone.
    evidence: dict[str, JsonValue] = Field(default={})

    @property
    def is_scored(self) -> bool:
        """True if the sample counts; a fallback's answer and a failure of an instrument do not."""
        return self.is_right is not None

    def measure(self, name: str) -> float:
        """Return a rate or a cost; 0 if the workflow did not run."""
        return self.measures.get(name, 0.0)


async def play_on(
    client: RewardClient,
    task: Task,
    sources: Sequence[tuple[str, str]],
    *,
    key: str,
    run: str,
    timeout_s: float,
) -> list[WorkflowSample]:
    """Return the samples of a task, for pairs of a candidate's name and a reply.

    All of them are one group: they have the same judge. A failure of the service is a failure of
    each sample.

    Raises:
        AssayError: the task or the service's configuration cannot be used, or there is no service.
    """
    request = ScoreRequest(
        task=task, answers=tuple(Answer(text=text) for _, text in sources), key=key, run=run
    )
    rewards: Sequence[Reward]
    try:
        async with asyncio.timeout(timeout_s):
            rewards = (await client.score(request)).rewards
    except Unreachable:
        raise  # nothing was measured; an interrupted command resumes
    except InfrastructureError as error:
        rewards = [Unscored(failure=to_failure(error, "reward"))] * len(sources)
    except TimeoutError:
        late = InfrastructureError(f"no scores in {timeout_s:g} s", service="reward")
        rewards = [Unscored(failure=to_failure(late, "reward"))] * len(sources)
    counts: dict[str, int] = {}
    found = []
    for (name, _), reward in zip(sources, rewards, strict=True):
        found.append(_sample(name, counts.get(name, 0), reward))
        counts[name] = counts.get(name, 0) + 1
    return found


def _sample(name: str, index: int, reward: Reward) -> WorkflowSample:
    played: Any = reward.evidence.get("workflow") or {}
    shared: dict[str, Any] = {
        "candidate": name,
        "index": index,
        "measures": {key.removeprefix(PREFIX): value for key, value in reward.measures.items()},
        "answer": (played.get("run") or {}).get("answer"),
        "evidence": reward.evidence,
    }
    if isinstance(reward, Scored):
        is_right = reward.outcome is Status.ACCEPTED
        return WorkflowSample(is_right=is_right, reward=reward.value, **shared)
    failure = reward.failure
    return WorkflowSample(
        failure=failure.failure_class.value, message=failure.message[:_MAX_MESSAGE], **shared
    )
