"""Repair of infeasible models, action by action, with a solver in the loop."""

from assay_reward.environment import StepEnvironment
from assay_reward.environment_task import check_not_over, played_in
from assay_reward.instruments import Instruments
from assay_reward.or_debug.dataset.tasks import ENVIRONMENT
from assay_shared.types import StepResponse, Task

NAME = ENVIRONMENT


async def _step(task: Task, turns: tuple[str, ...], instruments: Instruments) -> StepResponse:
    """Return the prompt (instructions and model) at first, then the result of a replay."""
    played = played_in(task, NAME)
    check_not_over(len(turns), played.max_turns)
    if not turns:
        return StepResponse(observation=task.prompt, done=False)
    return await instruments.players.step(played, turns)


OR_DEBUG = StepEnvironment("Repair an infeasible optimisation model by actions on it.", _step)
