"""Five hundred judgements at once, of a model with a second of thought for each."""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from fastapi import FastAPI

from assay_sandbox.load.load import LoadOutcome, LoadStep, Workload, ask, open_session
from assay_shared.runtime.processes import end, spawn
from assay_shared.settings.environment import ServiceSettings
from tests.conftest import Serve, wait_until
from tests.support.upstream import verdict

NUM_JUDGEMENTS = 500
MAX_CONCURRENT = 100
ANSWER_S = 1.0
#: As many waves as the provider's limit makes of them.
LEAST_S = NUM_JUDGEMENTS / MAX_CONCURRENT * ANSWER_S
MAX_GROWTH_BYTES = 8 * 2**20
JUDGE = Workload(
    "/v1/judge",
    {},
    lambda answer: [one["label"] for one in answer["judgements"]] == ["CORRECT"],
)


class SlowModel:
    """Answers after `ANSWER_S`; `most_at_once` requests were with it together."""

    def __init__(self) -> None:
        self.num_asked = self.most_at_once = self._at_once = 0
        self.app = FastAPI()

        @self.app.post("/v1/chat/completions")
        async def complete(body: dict[str, Any]) -> dict[str, object]:
            self.num_asked += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            await asyncio.sleep(ANSWER_S)
            self._at_once -= 1
            return verdict("CORRECT")


class Judge:
    """The service as a process, with a single provider in its chain."""

    def __init__(self, upstream: str, folder: Path) -> None:
        provider = {"kind": "openai", "name": "slow", "base_url": f"{upstream}/v1", "model": "m"}
        config, log = folder / "judge.yaml", folder / "judge.log"
        config.write_text(
            yaml.safe_dump({"chain": [provider | {"limits": {"concurrency": MAX_CONCURRENT}}]})
        )
        self.process = spawn(
            [sys.executable, "-m", "assay_shared.cli", "judge", "serve", "--port", "0"],
            log=log,
            environment=os.environ
            | {
                "ASSAY_JUDGE_CONFIG": str(config),
                "ASSAY_JUDGE_MAX_RUNNING": str(NUM_JUDGEMENTS),
            },
        )
        listening = re.compile(r"listening on (http://[\d.:]+)")
        wait_until(lambda: listening.search(log.read_text()), "the judge to listen")
        found = listening.search(log.read_text())
        assert found is not None
        self.url = found.group(1)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


@pytest.fixture
def model() -> SlowModel:
    return SlowModel()


@pytest.fixture
def judge(model: SlowModel, serve: Serve, tmp_path: Path) -> Iterator[Judge]:
    started = Judge(serve(model.app), tmp_path)
    yield started
    end([started.process], grace_s=10)


async def judge_all(url: str, round_: int) -> LoadStep:
    """All at once. All questions differ, so no verdict answers another."""
    step = LoadStep(NUM_JUDGEMENTS)
    bodies = [
        json.dumps({"question": f"What is {n} + {round_}?", "answers": ["x"], "reference": "y"})
        for n in range(NUM_JUDGEMENTS)
    ]
    started = time.monotonic()
    async with open_session(ServiceSettings()) as session:
        answers = await asyncio.gather(
            *(ask(session, url + JUDGE.path, body.encode(), JUDGE) for body in bodies)
        )
    step.duration_s = time.monotonic() - started
    assert {answer.outcome for answer in answers} == {LoadOutcome.RIGHT}
    return step


@pytest.mark.slow
async def test_five_hundred_judgements_at_once_keep_to_the_providers_limit(
    judge: Judge, model: SlowModel
) -> None:
    resident = []
    for number in range(2):
        step = await judge_all(judge.url, number)
        assert step.duration_s >= LEAST_S
        resident.append(judge.resident_bytes())
    assert model.num_asked == 2 * NUM_JUDGEMENTS
    assert model.most_at_once == MAX_CONCURRENT
    assert resident[1] - resident[0] < MAX_GROWTH_BYTES
