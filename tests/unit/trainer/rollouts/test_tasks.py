"""A worker process as it is started by default: its groups in flight and its connections."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, Request

from assay_shared.runs.queue import make_celery
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
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.store import GroupStore
from tests.conftest import Serve
from tests.support.fakes import make_completion, make_rewards, make_task
from tests.support.valkey import TestValkey


class Neighbours:
    """Inference and reward in a single app: a generation waits for 64 groups of 8 in flight."""

    def __init__(self) -> None:
        self.in_flight = self.most = 0
        self.ports: set[tuple[str, int]] = set()
        self.runs: set[tuple[str | None, str]] = set()
        self.app = FastAPI()
        full = asyncio.Event()

        @self.app.post("/v1/generate")
        async def generate(request: GenerateRequest, http: Request) -> GenerateResponse:
            self.in_flight += request.sampling.n
            self.most = max(self.most, self.in_flight)
            if self.most >= 512:
                full.set()
            await asyncio.wait_for(full.wait(), 30)
            self.in_flight -= request.sampling.n
            assert http.client is not None
            assert request.messages is not None
            self.ports.add(("inference", http.client.port))
            self.runs.add((http.headers.get("x-assay-run"), request.messages[0].content))
            completions = (make_completion(),) * request.sampling.n
            return GenerateResponse(prompt_token_ids=(1,), completions=completions)

        @self.app.post("/v1/score")
        async def score(request: ScoreRequest, http: Request) -> ScoreResponse:
            assert http.client is not None
            self.ports.add(("reward", http.client.port))
            rewards = make_rewards(*(1.0 for _ in request.answers))
            return ScoreResponse(rewards=rewards, scorer="s@0")


@pytest.fixture
def neighbours(serve: Serve, own_valkey: TestValkey, tmp_path: Path) -> Iterator[Neighbours]:
    neighbours = Neighbours()
    names = ("ASSAY_INFERENCE_URL", "ASSAY_REWARD_URL")
    environment = os.environ | dict.fromkeys(names, serve(neighbours.app))
    environment |= {"ASSAY_REDIS_URL": own_valkey.url}
    command = (sys.executable, "-m", "assay_shared.cli", "worker")
    process = spawn(command, log=tmp_path / "worker.log", environment=environment)
    yield neighbours
    end([process], 10)


@pytest.mark.nightly
def test_a_worker_keeps_512_sequences_in_flight_over_kept_connections(
    neighbours: Neighbours, own_valkey: TestValkey
) -> None:
    store = GroupStore(own_valkey.url)
    rollouts = RolloutDispatcher(make_celery(own_valkey.url), store, timeout_s=60, attempts=1)
    for number in range(256):
        run = f"r{number % 2}"
        task = make_task(f"{run} {number}")
        sampling = SamplingParams(n=8)
        rollouts.send(GroupRequest(key=f"g{number}", run=run, task=task, sampling=sampling))
    found: list[ScoredGroup] = []
    deadline = time.monotonic() + 60
    while rollouts.num_in_flight and time.monotonic() < deadline:
        found += rollouts.collect(0.1)
    assert len(found) == 256
    assert [one.failure for one in found if one.failure is not None] == []
    assert neighbours.most == 512
    assert len(neighbours.ports) <= 2 * 64, "connections are kept from group to group"
    assert all(said == f"question {run} {said.split()[-1]}" for run, said in neighbours.runs)
    assert len(neighbours.runs) == 256
    store.close()
