"""What an environment is: a pure step from a task and all turns so far to what the policy reads."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from assay_reward.instruments import Instruments
from assay_shared.types import StepResponse, Task


@dataclass(frozen=True)
class StepEnvironment:
    """How to play one kind of task.

    `step` keeps nothing between two calls, so any replica can take the next one. With no turns it
    gives the first observation. It raises InvalidInput for a task that lacks what it needs, and
    for turns after the end of the episode; what it could not find out is an InfrastructureError.
    """

    description: str
    step: Callable[[Task, tuple[str, ...], Instruments], Awaitable[StepResponse]]
