"""Places for runs: a run that waits too long is refused, and nothing is lost."""

import asyncio

import pytest

from assay_reward.workflows.playing import player
from assay_reward.workflows.playing.options import WorkflowOptions
from assay_reward.workflows.playing.player import WorkflowPlayer, WorkflowTask
from assay_shared.errors import Overloaded
from assay_shared.types import Limits
from tests.support.fakes import FakeSandbox
from tests.support.reward.measuring import WORKERS
from tests.support.workflows import ONE_CALL, FakeExecutor, make_workflow_task

OPTIONS = WorkflowOptions(problem="p", rubric="math")
TASK = WorkflowTask(make_workflow_task(), OPTIONS, Limits())


async def test_without_a_free_place_a_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "_MAX_WAIT_S", 0.2)
    executor = FakeExecutor(delay_s=1.0)
    playing = WorkflowPlayer(lambda budgets, run: executor, FakeSandbox(), max_runs=1)
    first = asyncio.ensure_future(playing.play(TASK, ONE_CALL, 0, WORKERS))
    await executor.is_asked.wait()
    with pytest.raises(Overloaded) as refused:
        await playing.play(TASK, ONE_CALL, 1, WORKERS)
    assert refused.value.retry_after_s == 5.0
    assert (await first).answer == "fine"
    assert (await playing.play(TASK, ONE_CALL, 1, WORKERS)).answer == "fine", "it is free again"


async def test_a_cancelled_run_gives_its_place_back() -> None:
    executor = FakeExecutor(delay_s=30)
    playing = WorkflowPlayer(lambda budgets, run: executor, FakeSandbox(), max_runs=1)
    first = asyncio.ensure_future(playing.play(TASK, ONE_CALL, 0, WORKERS))
    await executor.is_asked.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert executor.num_at_once == 0
    async with asyncio.timeout(2):
        async with playing._place():
            pass
