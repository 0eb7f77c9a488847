"""OpenRLHF's remote rewards: texts and labels in, numbers out, all of them or none.

Request and response of its client (0.11, `openrlhf/utils/agent.py`):
    {"query": ["<prompt><answer><end>"], "prompts": ["<prompt>"], "labels": ["<label>"]}
    {"rewards": [0.5], "scores": [0.5], "extra_logs": {"right": [0.0]}}
"""

import re

from pydantic import BaseModel

from assay_reward.rubric import Rubrics
from assay_reward.scorer import Scorer
from assay_shared.clients.labels import Label, task_from_label
from assay_shared.errors import InvalidInput, NotReady
from assay_shared.runtime.gather import gather
from assay_shared.types import Reward, Scored, ScoreRequest, ScoreResponse, Status, Task
from assay_shared.types.described import Described

_RETRY_AFTER_S = 5.0
#: Texts are decoded with their special tokens: `<|im_end|>`, `</s>`, `<eos>`, and the like.
_END = re.compile(r"(?:<[|｜][^<>|｜\s]{1,40}[|｜]>|</?s>|<[be]os>|<pad>|<end_of_turn>)\Z")
_MAX_END = 48


class RemoteRewardRequest(Described, BaseModel):
    """Queries, each a prompt and its answer in a single text. Other fields are ignored."""

    #: Prompt and answer in a single text.
    query: list[str]
    #: The prompt of each query.
    prompts: list[str]
    #: The ground truth of each query: a reference, or fields of a task.
    labels: list[Label] = []


class RemoteRewards(Described, BaseModel):
    """Rewards, scores from 0 to 1, and numbers for logs, each with an entry per query."""

    #: A reward for each query.
    rewards: list[float]
    #: The rewards on a scale from 0 to 1.
    scores: list[float]
    #: Numbers for the trainer's logs, one for each query.
    extra_logs: dict[str, list[float]]


async def remote_rewards(
    request: RemoteRewardRequest, rubric: str | None, rubrics: Rubrics, scorer: Scorer
) -> RemoteRewards:
    """Return the rewards of all queries; equal prompts with equal labels form a group.

    Args:
        rubric: the rubric of all queries; without it, each label names its own.

    Raises:
        InvalidInput: a query lacks its prompt, or a label cannot be used.
        NotReady: an answer could not be scored: the format has no missing rewards.
        Overloaded: too many groups wait already.
    """
    groups = _groups(request, rubric)
    responses = await gather(scorer.score(one) for _, one in groups)
    rewards: dict[int, Scored] = {}
    scores: dict[int, float] = {}
    for (indices, one), response in zip(groups, responses, strict=True):
        info = rubrics.find(one.task.rubric).info()
        for index, reward in zip(indices, _all_scored(response), strict=True):
            rewards[index] = reward
            scores[index] = (reward.value - info.lowest) / (info.highest - info.lowest)
    everyone = range(len(request.query))
    logs = {"right": [float(rewards[at].outcome is Status.ACCEPTED) for at in everyone]}
    if rubric is not None:  # otherwise samples would log different components
        for component in rubrics.find(rubric).counted:
            logs[component.label] = [_value(rewards[at], component.label) for at in everyone]
    return RemoteRewards(
        rewards=[rewards[at].value for at in everyone],
        scores=[scores[at] for at in everyone],
        extra_logs=logs,
    )


def answer_of(query: str, prompt: str) -> str:
    """Return the text after the prompt, without the special tokens at its end.

    Raises:
        InvalidInput: the query does not start with the prompt, for example after a cut to fit.
    """
    before, found, after = query.partition(prompt)
    # A tokenizer may put a special token before the prompt, but no text.
    if not found or _without_ends(before):
        raise InvalidInput(
            "does not start with its prompt", field="query", hint="leave prompts uncut"
        )
    return _without_ends(after)


def _without_ends(text: str) -> str:
    """Return the text without the special tokens and spaces at its end."""
    end = len(text.rstrip())
    while found := _END.search(text, max(0, end - _MAX_END), end):
        end = found.start()
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def _groups(
    request: RemoteRewardRequest, rubric: str | None
) -> list[tuple[list[int], ScoreRequest]]:
    """Return each group with the indices of its queries."""
    num = len(request.query)
    labels = request.labels or [None] * num
    for field, values in (("prompts", request.prompts), ("labels", labels)):
        if len(values) != num:
            raise InvalidInput(f"{len(values)} for {num} queries", field=field)
    tasks: dict[str, Task] = {}
    members: dict[str, list[int]] = {}
    for index, (prompt, label) in enumerate(zip(request.prompts, labels, strict=True)):
        task = task_from_label(prompt, label, rubric, dataset="openrlhf")
        key = task.model_dump_json()
        tasks[key] = task
        members.setdefault(key, []).append(index)
    return [
        (indices, _score_request(tasks[key], [request.query[at] for at in indices]))
        for key, indices in members.items()
    ]


def _score_request(task: Task, queries: list[str]) -> ScoreRequest:
    if len(queries) > 256:
        raise InvalidInput("more than 256 answers to one prompt", field="query")
    return ScoreRequest(
        task=task, answers=tuple(answer_of(query, task.prompt) for query in queries)
    )


def _all_scored(response: ScoreResponse) -> list[Scored]:
    return [_scored(reward) for reward in response.rewards]


def _scored(reward: Reward) -> Scored:
    if not isinstance(reward, Scored):
        failure = reward.failure
        raise NotReady(
            f"an answer could not be scored: {failure.message}",
            service=failure.service,
            attempts=failure.attempts,
            retry_after_s=_RETRY_AFTER_S,
        )
    return reward


def _value(reward: Scored, name: str) -> float:
    return next(one.value for one in reward.components if one.name == name)
