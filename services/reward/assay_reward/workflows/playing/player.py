"""The player of workflows: it reads replies, runs them, and keeps the runs of episodes."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.executor import WorkflowExecutor
from assay_reward.workflows.execution.run import RunCost, RunEnding, play_workflow
from assay_reward.workflows.operators.support.public_problem import PublicProblem
from assay_reward.workflows.playing.options import WorkflowOptions
from assay_reward.workflows.playing.played import PlayedWorkflow
from assay_reward.workflows.playing.reading import read_reply
from assay_shared.errors import ConfigError, Overloaded
from assay_shared.interfaces import Sandbox
from assay_shared.runtime.single_flight import SingleFlight
from assay_shared.runtime.workers import Workers
from assay_shared.types import Limits, Task

#: Runs of episodes that are kept for the next turn and the score.
_MAX_KEPT: Final = 256
#: A client waits 120 s for an answer: a run that waits longer for its place would be lost.
_MAX_WAIT_S, _RETRY_AFTER_S = 20.0, 5.0

#: Makes the executor of a new run, from its budgets and the training run to charge.
BeginRun = Callable[[RunBudgets, str], WorkflowExecutor]


@dataclass(frozen=True)
class WorkflowTask:
    """A task of the environment, with its options and the limits of its programs."""

    task: Task
    options: WorkflowOptions
    limits: Limits
    #: The training run to charge.
    run: str = ""

    @property
    def problem(self) -> PublicProblem:
        """The part of the task that operators may see. Raises InvalidInput for a bad check."""
        return PublicProblem.of(self.task, self.options.problem, self.limits)


class WorkflowPlayer:
    """Plays the replies of all tasks, at most `max_runs` at once; further runs wait a little.

    The run whose trace a policy has seen is the run that is scored: runs of episodes are kept by
    their task and turns. A run that failed is not kept, and is tried again.
    """

    def __init__(
        self,
        begin: BeginRun | None = None,
        sandbox: Sandbox | None = None,
        max_runs: int = 256,
    ) -> None:
        self._begin = begin
        self._sandbox = sandbox
        self._places = asyncio.Semaphore(max_runs)
        self._kept: OrderedDict[str, PlayedWorkflow] = OrderedDict()
        self._flights: SingleFlight[PlayedWorkflow] = SingleFlight()

    async def play(
        self, played: WorkflowTask, reply: str, seed: int, workers: Workers
    ) -> PlayedWorkflow:
        """Return a reply as it was played. An invalid workflow has no run.

        Raises:
            ConfigError: the service has no executor.
            Overloaded: no place became free; the reply can be sent again.
            AssayError: the reply could not be read, for a reason of ours.
        """
        if self._begin is None or self._sandbox is None:
            raise ConfigError(
                "workflows need an executor",
                field="ASSAY_EXECUTOR_CONFIG",
                hint="name a file such as configs/executor.yaml",
            )
        read = await read_reply(reply, repair=played.options.repair, workers=workers)
        if read.tree is None:
            return PlayedWorkflow(read, None)
        budgets = played.options.budgets
        async with self._place():
            executor = self._begin(budgets, played.run)
            run = await play_workflow(
                read.tree, played.problem, executor, self._sandbox, budgets, seed=seed
            )
        return PlayedWorkflow(read, run)

    async def play_turns(
        self, played: WorkflowTask, turns: Sequence[str], workers: Workers
    ) -> PlayedWorkflow:
        """Return the last turn as it was played in this episode; errors as in `play`."""
        key = _key(played, turns)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        seed = int(key[:8], 16) & 0x7FFFFFFF
        found = await self._flights.run(key, lambda: self.play(played, turns[-1], seed, workers))
        if found.run is None or found.run.status is not RunEnding.FAILED:
            self._kept[key] = found
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return found

    async def play_episode(
        self, played: WorkflowTask, turns: Sequence[str], workers: Workers
    ) -> PlayedWorkflow:
        """Return the last turn as it was played, with the cost of the runs before it.

        A policy that reads a result has used its run. Turns whose runs are no longer kept are
        played again; if one fails now, the cost is unknown, and this turn is returned.
        Errors as in `play`.
        """
        before: RunCost | None = None
        for number in range(1, len(turns)):
            earlier = await self.play_turns(played, turns[:number], workers)
            if earlier.run is not None:
                if earlier.run.failure is not None:
                    return earlier
                before = earlier.run.cost if before is None else before + earlier.run.cost
        return replace(await self.play_turns(played, turns, workers), before=before)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Hold a place for a run. Raises Overloaded if none becomes free in time."""
        try:
            async with asyncio.timeout(_MAX_WAIT_S):
                await self._places.acquire()
        except TimeoutError:
            raise Overloaded(
                f"no place for a workflow became free within {_MAX_WAIT_S:g} s",
                service="reward",
                retry_after_s=_RETRY_AFTER_S,
            ) from None
        try:
            yield
        finally:
            self._places.release()


def _key(played: WorkflowTask, turns: Sequence[str]) -> str:
    """Return a digest of the task and the turns."""
    digest = hashlib.sha256()
    for text in (played.task.model_dump_json(), *turns):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()
