"""The interface of environments: a pure step from a task and its turns to an observation."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from assay_reward.instruments import Instruments
from assay_shared.types import StepResponse, Task


@dataclass(frozen=True)
class StepEnvironment:
    """An environment for one kind of task.

    `step` keeps nothing between two calls, so any replica can take the next call. Without turns it
    returns the first observation. It raises InvalidInput for a task without the required data, and
    for turns after the end of the episode. It raises InfrastructureError if a service or solver
    gives no result.
    """

    description: str
    step: Callable[[Task, tuple[str, ...], Instruments], Awaitable[StepResponse]]
