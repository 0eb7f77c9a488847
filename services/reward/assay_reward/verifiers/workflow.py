"""Rewards of workflows: correctness by the task's own rubric, less cost, less repairs.

An invalid workflow and a workflow beyond its budgets are the policy's, and have the lowest values.
A run that failed for its instruments, and every answer of a fallback, has no score.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from assay_reward.environment_task import check_not_over, played_in, read_instance
from assay_reward.instruments import ComponentUsage
from assay_reward.programs import limits_of
from assay_reward.verifiers.verifier import (
    AnswerContext,
    Found,
    GroupContext,
    Measurement,
    NoOptions,
    Verifier,
)
from assay_reward.workflows.execution.run import RunCost
from assay_reward.workflows.playing.feedback import without_keep
from assay_reward.workflows.playing.options import ENVIRONMENT, WorkflowOptions
from assay_reward.workflows.playing.played import PlayedWorkflow
from assay_reward.workflows.playing.player import WorkflowTask
from assay_shared.errors import AssayError, InvalidInput, to_failure
from assay_shared.runtime.gather import gather
from assay_shared.settings.run_file import Config
from assay_shared.types import (
    Answer,
    Cost,
    Failure,
    Reward,
    Scored,
    ScoreRequest,
    Status,
    Task,
    Unscored,
)

_MAX_DETAIL = 200


class CostOptions(Config):
    """What counts as the cost of a workflow, and the cost at which nothing is left."""

    measure: Literal["tokens", "operator_cost", "calls", "money"] = "tokens"
    most: float = Field(default=8000, gt=0, le=1e9)


class RepairedOptions(Config):
    """The number of repairs at which nothing is left."""

    most: int = Field(default=4, ge=1, le=100)


@dataclass(frozen=True)
class ScoredWorkflow:
    """A played reply, and its answer's place on the scale of the task's rubric, in [0, 1]."""

    played: PlayedWorkflow
    share: float
    outcome: Status
    detail: str

    def measured(self, value: float, detail: str = "") -> Measurement:
        """Return a component's measurement, with the outcome of the answer."""
        return Measurement(value, self.outcome, (detail or self.detail)[:_MAX_DETAIL])


async def play_group(
    group: GroupContext, meter: ComponentUsage
) -> dict[int, ScoredWorkflow | Failure]:
    """Play all admitted replies, and score the answers together: one judge for the group."""
    task = group.task
    options = read_instance(played_in(task, ENVIRONMENT), WorkflowOptions)
    played = dict(
        zip(
            group.admitted,
            await gather(_play(group, options, index) for index in group.admitted),
            strict=True,
        )
    )
    for index, one in played.items():
        if isinstance(one, Failure):
            continue
        group.note(index, one.measures(), one.evidence(options.trace_chars))
        if (used := one.cost) is not None:
            meter.charge(Cost(sandbox_cpu_s=used.sandbox_cpu_s, money=used.money))
    rewards = await _rewards(group, played, meter)
    return {index: _scored(one, rewards.get(index)) for index, one in played.items()}


async def _play(
    group: GroupContext, options: WorkflowOptions, index: int
) -> PlayedWorkflow | Failure:
    """Play a reply. Of an episode, the run that the policy has seen is kept and counts.
    The runs of its earlier turns are a part of the cost.

    A failure to play one reply leaves the others of the group alone.
    """
    task, player, workers = group.task, group.instruments.workflows, group.instruments.workers
    given, most = group.answers[index].turns, played_in(task, ENVIRONMENT).max_turns
    played = WorkflowTask(task, options, limits_of(task), group.run)
    try:
        check_not_over(len(given), most)
        turns = without_keep(given)
        if most > 1:
            return await player.play_episode(played, turns, workers)
        return await player.play(played, turns[-1], index, workers)
    except AssayError as error:
        return to_failure(error, "reward")


async def _rewards(
    group: GroupContext,
    played: dict[int, PlayedWorkflow | Failure],
    meter: ComponentUsage,
) -> dict[int, tuple[Reward, float]]:
    """Return the answers' rewards by the task's rubric, each with its share of the scale."""
    answers = {
        index: one.answer
        for index, one in played.items()
        if isinstance(one, PlayedWorkflow) and one.answer is not None
    }
    if not answers:
        return {}
    inner = _inner_task(group.task)
    request = ScoreRequest(
        task=inner, answers=tuple(Answer(text=text) for text in answers.values()), run=group.run
    )
    try:
        found = await group.instruments.inner.score(request)
    except AssayError as error:
        # The replies without an answer are known to be wrong, and keep their score.
        lost = Unscored(failure=to_failure(error, "reward"))
        return dict.fromkeys(answers, (lost, 0.0))
    for component in found.response.components:
        meter.charge(component.cost)
    for index, reward in zip(answers, found.response.rewards, strict=True):
        group.note(index, {}, reward.evidence)
    return {
        index: (reward, found.share(reward))
        for index, reward in zip(answers, found.response.rewards, strict=True)
    }


def _inner_task(task: Task) -> Task:
    """Return the task that scores the answer of a workflow."""
    options = read_instance(played_in(task, ENVIRONMENT), WorkflowOptions)
    return task.model_copy(
        update={
            "prompt": options.problem,
            "rubric": options.rubric,
            "environment": None,
            "gold": None,  # it is a workflow
        }
    )


def _scored(
    played: PlayedWorkflow | Failure, reward: tuple[Reward, float] | None
) -> ScoredWorkflow | Failure:
    if isinstance(played, Failure):
        return played
    run = played.run
    if run is None:
        detail = f"not valid: {played.read.problems[0] if played.read.problems else ''}"
        return ScoredWorkflow(played, 0.0, Status.SYNTAX_ERROR, detail)
    if run.failure is not None:
        return run.failure
    if run.fault is not None:
        detail = f"stopped: {run.fault.message}"
        return ScoredWorkflow(played, 0.0, Status.RUNTIME_ERROR, detail)
    assert reward is not None, "each answer has a reward or a failure"
    scored, share = reward
    if not isinstance(scored, Scored):
        return scored.failure
    said = "; ".join(one.detail for one in scored.components if one.detail)
    return ScoredWorkflow(played, share, scored.outcome, said or f"{share:g} of the scale")


async def _correct(candidate: AnswerContext, options: NoOptions) -> Found:
    """Return the answer's place on the scale of the task's own rubric."""
    found = await candidate.once_for_all(play_group)
    if isinstance(found, Failure):
        return found
    return found.measured(found.share)


async def _thrift(candidate: AnswerContext, options: CostOptions) -> Found:
    """Return what a right answer left of the cost; 0 for every other answer.

    Otherwise a wrong and cheap workflow would be better than none.
    """
    found = await candidate.once_for_all(play_group)
    if isinstance(found, Failure):
        return found
    if found.outcome is not Status.ACCEPTED or found.played.cost is None:
        return found.measured(0.0)
    cost = _cost(found.played.cost, options)
    return found.measured(max(0.0, 1.0 - cost / options.most), f"{cost:g} {options.measure}")


def _cost(cost: RunCost, options: CostOptions) -> float:
    return float(getattr(cost, options.measure))


async def _clean(candidate: AnswerContext, options: RepairedOptions) -> Found:
    """Return 1 for a workflow that ran without repairs, less for each repair, 0 for a fault."""
    found = await candidate.once_for_all(play_group)
    if isinstance(found, Failure):
        return found
    number = len(found.played.read.repairs)
    value = max(0.0, 1.0 - number / options.most) if found.played.has_no_fault else 0.0
    return found.measured(value, f"{number} repairs" if number else "")


async def _valid(candidate: AnswerContext, options: NoOptions) -> Found:
    """Return 1 for a valid workflow that kept its budgets, else 0."""
    found = await candidate.once_for_all(play_group)
    if isinstance(found, Failure):
        return found
    return found.measured(float(found.played.has_no_fault))


def _is_played(task: Task, options: object) -> None:
    read = read_instance(played_in(task, ENVIRONMENT), WorkflowOptions)
    problem = WorkflowTask(task, read, limits_of(task)).problem  # raises for an unusable check
    if not problem.text.strip():
        raise InvalidInput("is blank", field="task.environment.instance.problem")


WORKFLOW_CORRECT = Verifier(_correct, NoOptions, _is_played, inner=_inner_task)
WORKFLOW_THRIFT = Verifier(_thrift, CostOptions, _is_played, inner=_inner_task)
WORKFLOW_CLEAN = Verifier(_clean, RepairedOptions, _is_played, inner=_inner_task)
WORKFLOW_VALID = Verifier(_valid, NoOptions, _is_played, inner=_inner_task)
