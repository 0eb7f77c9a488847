"""Processes for replays of episodes: a hanging or crashing solver ends only its process."""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from pebble import ProcessExpired, ProcessPool

from assay_reward.environment_task import check_not_over, read_instance
from assay_reward.or_debug.episode.episode import Episodes
from assay_reward.or_debug.episode.metrics import EpisodeMetrics, claim_irreducible, measure
from assay_reward.or_debug.episode.rewards import process_parts
from assay_reward.or_debug.models.instance import Instance
from assay_shared.errors import SolverFault, TimedOut
from assay_shared.types import EnvironmentTask, StepResponse

Result = TypeVar("Result")
Turns = tuple[str, ...]
#: Time limit for all solves of a claim together.
_CLAIM_LIMIT_S = 2.0


class ReplayPool:
    """A pool of worker processes, started on demand."""

    def __init__(
        self, num_processes: int = 1, solve_timeout_s: float = 10.0, episode_timeout_s: float = 60.0
    ) -> None:
        """Limit each solve to `solve_timeout_s`, and each whole replay to `episode_timeout_s`."""
        self._num_processes = num_processes
        self._solve_timeout_s = solve_timeout_s
        self._episode_timeout_s = episode_timeout_s
        self._pool: ProcessPool | None = None

    async def step(self, played: EnvironmentTask, turns: Turns) -> StepResponse:
        """Return the environment's response to `turns`, of at least one turn.

        Raises:
            InvalidInput: the instance cannot be read, or turns follow the end of the episode.
            TimedOut, SolverFault: the solver gave no verdict.
        """
        return await self._run(step, played, turns)

    async def measure(
        self, played: EnvironmentTask, turns: Turns, *, judge_claim: bool = False
    ) -> EpisodeMetrics:
        """Return the metrics of the episode after `turns`; judge its claim only on request.

        Raises as `step`.
        """
        return await self._run(measure_claim if judge_claim else measure_turns, played, turns)

    async def _run(
        self,
        work: Callable[[Episodes, Instance, Turns, int], Result],
        played: EnvironmentTask,
        turns: Turns,
    ) -> Result:
        check_not_over(len(turns), played.max_turns)
        future = self._open().schedule(
            _work,
            args=[work, played.model_dump_json(), turns, self._solve_timeout_s],
            timeout=self._episode_timeout_s,
        )
        try:
            result: Result = await asyncio.wrap_future(future)
        except OutOfTime:
            raise TimedOut(f"no replay within {self._episode_timeout_s:g} s") from None
        except ProcessExpired as error:
            raise SolverFault(f"the solver's process ended: {error}") from error
        return result

    def _open(self) -> ProcessPool:
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPool(max_workers=self._num_processes, context=spawn)
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()


def step(episodes: Episodes, instance: Instance, turns: Turns, max_turns: int) -> StepResponse:
    """Return the response to the last of `turns`. Raises as `Episodes.replay`."""
    before = episodes.replay(instance.model, turns[:-1], max_turns)
    after = episodes.replay(instance.model, turns, max_turns)
    last = after.steps[-1]
    return StepResponse(
        observation=after.observation,
        done=after.done,
        parts=process_parts(instance, before, after),
        facts={
            "status": after.outcome.status,
            "objective": after.outcome.objective,
            "action": str(last.action) if last.action else None,
            "refusal": last.refusal,
            "num_turns": len(after.steps),
        },
    )


def measure_turns(
    episodes: Episodes, instance: Instance, turns: Turns, max_turns: int
) -> EpisodeMetrics:
    """Return the metrics of the episode after `turns`. Raises as `Episodes.replay`."""
    return measure(instance, episodes.replay(instance.model, turns, max_turns))


def measure_claim(
    episodes: Episodes, instance: Instance, turns: Turns, max_turns: int
) -> EpisodeMetrics:
    """Return the metrics with the solver's verdict on the diagnosis as an irreducible set."""
    state = episodes.replay(instance.model, turns, max_turns)
    judged = claim_irreducible(instance.model, state.diagnosis, _CLAIM_LIMIT_S)
    return replace(measure(instance, state), claim_irreducible=judged)


def _work(
    work: Callable[[Episodes, Instance, Turns, int], Result],
    played_json: str,
    turns: Turns,
    solve_timeout_s: float,
) -> Result:
    """Do the work in a worker process; its memory of episodes outlives the work."""
    instance, max_turns = _read(played_json)
    return work(_episodes(solve_timeout_s), instance, turns, max_turns)


@lru_cache(maxsize=1)
def _episodes(solve_timeout_s: float) -> Episodes:
    return Episodes(solve_timeout_s)


@lru_cache(maxsize=256)
def _read(played_json: str) -> tuple[Instance, int]:
    played = EnvironmentTask.model_validate_json(played_json)
    return read_instance(played, Instance), played.max_turns
