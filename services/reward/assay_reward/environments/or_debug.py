"""Infeasible models, repaired action by action with a solver in the loop."""

from assay_reward.environment import Environment
from assay_reward.measurement import Instruments
from assay_reward.or_debug.tasks import ENVIRONMENT
from assay_reward.playing import check_not_over, played_in
from assay_shared.types import StepResponse, Task

NAME = ENVIRONMENT


async def _step(task: Task, turns: tuple[str, ...], instruments: Instruments) -> StepResponse:
    """The prompt holds instructions and model; from then on a replay answers."""
    played = played_in(task, NAME)
    check_not_over(len(turns), played.max_turns)
    if not turns:
        return StepResponse(observation=task.prompt, done=False)
    return await instruments.players.step(played, turns)


OR_DEBUG = Environment("Repair an infeasible optimisation model by actions on it.", _step)
