"""Sending and taking back on a real Valkey, with the worker's part played by hand."""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import pytest
import redis
from celery.app.control import Control
from fastapi import FastAPI

from assay_shared.errors import Unreachable
from assay_shared.runs.queue import ROLLOUT_QUEUE, make_celery
from assay_shared.runtime.processes import end, spawn
from assay_shared.types import (
    GenerateRequest,
    GenerateResponse,
    GroupRequest,
    SamplingParams,
    ScoredGroup,
    ScoreRequest,
    ScoreResponse,
)
from assay_trainer.rollouts import dispatcher as module
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.store import GroupStore
from tests.conftest import Serve, wait_until
from tests.support.fakes import make_completion, make_rewards, make_scored_group, make_task
from tests.support.valkey import TestValkey


@pytest.fixture
def store(valkey: TestValkey) -> GroupStore:
    return GroupStore(valkey.url)


def make_rollouts(
    valkey: TestValkey, store: GroupStore, timeout_s: float = 60.0, attempts: int = 3
) -> RolloutDispatcher:
    return RolloutDispatcher(make_celery(valkey.url), store, timeout_s=timeout_s, attempts=attempts)


def request(key: str) -> GroupRequest:
    return GroupRequest(key=key, run="r", task=make_task(key), sampling=SamplingParams())


def wait_for(rollouts: RolloutDispatcher, timeout_s: float = 15.0) -> list[ScoredGroup]:
    found: list[ScoredGroup] = []
    deadline = time.monotonic() + timeout_s
    while rollouts.num_in_flight and time.monotonic() < deadline:
        found += rollouts.collect(0.2)
    return found


def test_what_is_stored_comes_back_once(valkey: TestValkey, store: GroupStore) -> None:
    rollouts = make_rollouts(valkey, store)
    rollouts.send(request("a"))
    rollouts.send(request("b"))
    assert rollouts.collect(0.05) == []
    store.put_once(make_scored_group("b", 1.0))
    assert [scored.group.key for scored in rollouts.collect(1.0)] == ["b"]
    assert rollouts.num_in_flight == 1
    assert rollouts.collect(0.05) == []


def test_what_was_stored_before_it_was_sent_is_found(valkey: TestValkey, store: GroupStore) -> None:
    """As after a trainer's death between a worker's result and its own check of it."""
    store.put_once(make_scored_group("a", 1.0))
    rollouts = make_rollouts(valkey, store)
    rollouts.send(request("a"))
    assert len(wait_for(rollouts)) == 1


def test_a_group_whose_worker_died_is_sent_again(
    valkey: TestValkey, store: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHECK_S", 0.05)
    rollouts = make_rollouts(valkey, store)
    rollouts.send(request("a"))
    store.lease("a", "doomed")
    rollouts.collect(0.3)
    assert rollouts.num_resent == 0, "a living worker has it"
    store.release("a")  # what its end does, after the lease has run out
    rollouts.collect(0.3)
    assert rollouts.num_resent == 1
    store.put_once(make_scored_group("a", 1.0))
    assert len(wait_for(rollouts)) == 1


def test_a_group_that_nobody_takes_ends_in_a_failure(
    valkey: TestValkey, store: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHECK_S", 0.05)
    monkeypatch.setattr(module, "_ANSWER_S", 0.1)
    rollouts = make_rollouts(valkey, store, timeout_s=0.2, attempts=3)
    rollouts.send(request("a"))
    (scored,) = wait_for(rollouts)
    assert scored.rewards == ()
    assert scored.failure is not None
    assert "sent 3 times and never played; is a worker running?" in scored.failure.message


def test_a_wait_behind_other_groups_is_no_loss(
    valkey: TestValkey, store: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker answers and plays another run's groups, while ours wait much longer than allowed."""
    monkeypatch.setattr(module, "_CHECK_S", 0.05)
    rollouts = make_rollouts(valkey, store, timeout_s=0.2, attempts=1)
    answering = threading.Event()

    def answer(self: Control, **_: object) -> list[object]:
        return [{"a worker": {"ok": "pong"}}] if answering.is_set() else []

    monkeypatch.setattr(Control, "ping", answer)
    answering.set()
    rollouts.send(request("a"))
    rollouts.send(request("b"))
    assert rollouts.collect(1.0) == [], "five times its limit"
    assert (rollouts.num_resent, rollouts.num_in_flight) == (0, 2)
    store.lease("a", "w")
    assert rollouts.collect(0.3) == []
    store.release("a")
    (lost,) = rollouts.collect(1.0)
    assert lost.group.key == "a", "its worker is gone: that is a loss"
    answering.clear()
    (lost,) = rollouts.collect(1.0)
    assert lost.group.key == "b", "nobody will take it"


def test_what_is_not_in_the_queue_is_lost_and_no_wait_is_endless(
    valkey: TestValkey, store: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHECK_S", 0.05)
    monkeypatch.setattr(Control, "ping", lambda self, **_: [{"a worker": {"ok": "pong"}}])
    rollouts = make_rollouts(valkey, store, timeout_s=0.1, attempts=2)
    rollouts.send(request("a"))
    with redis.Redis.from_url(valkey.url) as client:
        client.delete(ROLLOUT_QUEUE)  # as a worker that died while it played it
    rollouts.collect(0.3)
    assert rollouts.num_resent == 1
    monkeypatch.setattr(module, "_MAX_QUEUED_S", 0.3)
    (failed,) = wait_for(rollouts)
    assert failed.failure is not None


def test_a_group_behind_a_busy_worker_is_played_in_its_turn(
    valkey: TestValkey, serve: Serve, store: GroupStore, tmp_path: Path
) -> None:
    """With a single slot, the last of three waits twice as long as its limit, and is sent once."""
    environment = os.environ | {"ASSAY_REDIS_URL": valkey.url}
    environment |= dict.fromkeys(("ASSAY_INFERENCE_URL", "ASSAY_REWARD_URL"), serve(slow()))
    command = (sys.executable, "-m", "assay_shared.cli", "worker", "--concurrency", "1")
    rollouts = make_rollouts(valkey, store, timeout_s=8.0, attempts=1)
    rollouts.send(request("first"))
    worker = spawn(command, log=tmp_path / "worker.log", environment=environment)
    try:
        wait_until(lambda: store.leased(["first"]), "the worker to begin")
        rollouts._timeout_s = 1.5
        for key in ("second", "third"):
            rollouts.send(request(key))
        found = wait_for(rollouts)
    finally:
        end([worker], 5)
    assert [one.group.key for one in found] == ["first", "second", "third"]
    assert [one.failure for one in found if one.failure is not None] == []
    assert rollouts.num_resent == 0


def slow() -> FastAPI:
    """Inference and reward in a single app; a generation takes two seconds."""
    app = FastAPI()

    @app.post("/v1/generate")
    async def generate(request: GenerateRequest) -> GenerateResponse:
        await asyncio.sleep(2.0)
        return GenerateResponse(prompt_token_ids=(1,), completions=(make_completion(),))

    @app.post("/v1/score")
    async def score(request: ScoreRequest) -> ScoreResponse:
        return ScoreResponse(rewards=make_rewards(1.0), scorer="s@0")

    return app


def test_after_a_restart_of_the_broker_everything_is_sent_again(
    own_valkey: TestValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHECK_S", 0.05)
    store = GroupStore(own_valkey.url)
    rollouts = make_rollouts(own_valkey, store)
    for key in ("a", "b", "c"):
        rollouts.send(request(key))
    store.put_once(make_scored_group("b", 1.0))
    own_valkey.kill()
    own_valkey.start()
    rollouts.collect(0.5)
    assert rollouts.num_resent == 2


@pytest.mark.slow
def test_a_broker_that_stays_away_is_a_clear_error(
    own_valkey: TestValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay_trainer.rollouts.store._RETRIES", 2)
    store = GroupStore(own_valkey.url)
    rollouts = make_rollouts(own_valkey, store)
    rollouts.send(request("a"))
    own_valkey.kill()
    with pytest.raises(Unreachable, match="no Redis"):
        rollouts.collect(1.0)
    with pytest.raises(Unreachable, match="no broker"):
        rollouts.send(request("b"))
