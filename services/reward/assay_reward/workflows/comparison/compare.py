"""Play a plan: every task with all candidates, a bounded number of tasks at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from assay_reward.settings import RewardSettings
from assay_reward.workflows.comparison.plan import WorkflowComparison, digest_of
from assay_reward.workflows.comparison.play_log import PlayLog
from assay_reward.workflows.comparison.samples import WorkflowSample, play_on
from assay_shared.clients import RewardClient, Timeouts
from assay_shared.runtime.gather import gather
from assay_shared.settings.environment import read_settings
from assay_shared.types import Task

#: The training run that the costs are charged to.
RUN: Final = "workflow-compare"


@dataclass(frozen=True)
class PlayOptions:
    """How tasks are played: groups at once, the time of each, and tasks whose traces are kept."""

    parallel: int = 8
    timeout_s: float = 900.0
    traces: int = 5


@asynccontextmanager
async def open_client(timeout_s: float) -> AsyncIterator[RewardClient]:
    """Open a client of the reward service in the settings, with this limit for each request."""
    timeouts = Timeouts(read_s=timeout_s, total_s=timeout_s)
    settings = read_settings(RewardSettings)
    async with RewardClient.from_settings(settings, timeouts=timeouts) as client:
        yield client


async def play_plan(
    client: RewardClient,
    plan: WorkflowComparison,
    log: PlayLog,
    options: PlayOptions,
    on_task: Callable[[int], None] = lambda done: None,
) -> None:
    """Play the tasks that the log does not have yet.

    Raises:
        AssayError: a task or the service's configuration cannot be used.
    """
    places = asyncio.Semaphore(options.parallel)
    traced = {task.id for task in plan.tasks[: options.traces]}

    async def play(task: Task) -> None:
        sources = plan.sources(task)
        key = f"{RUN}/{digest_of([task.model_dump_json(), *(text for _, text in sources)])}"
        async with places:
            found = await play_on(
                client, task, sources, key=key, run=RUN, timeout_s=options.timeout_s
            )
        log.add(task.id, [one if task.id in traced else without_trace(one) for one in found])
        on_task(len(log.samples))

    await gather([play(task) for task in plan.tasks if task.id not in log.samples])


def without_trace(sample: WorkflowSample) -> WorkflowSample:
    """Return a sample without its run."""
    return sample.model_copy(update={"evidence": {}})
