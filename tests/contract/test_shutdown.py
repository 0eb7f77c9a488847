"""Real processes stopped under load: requests in flight are finished, or handed back."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from fastapi import FastAPI

from assay_shared.clients import RewardClient, SandboxClient, Timeouts
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import AssayError, InfrastructureError
from assay_shared.runs.queue import make_celery
from assay_shared.service.app import create_service
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import (
    CallCase,
    ExecutionRequest,
    GenerateRequest,
    GenerateResponse,
    GroupRequest,
    PolicyVersion,
    SamplingParams,
    ScoredGroup,
    ScoreRequest,
    ScoreResponse,
)
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.store import GroupStore
from tests.conftest import Serve, running_sandbox, wait_until
from tests.support.fakes import make_completion, make_rewards, make_task
from tests.support.policies import make_policy_folder, update_of
from tests.support.valkey import TestValkey

GRACE_S = 2
#: The first are done within the grace period, the last are not.
PAUSES_S = [0.05 * number for number in range(20)] + [30.0] * 4


@contextmanager
def process(*command: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A command of ours; it has to end without a signal."""
    started = subprocess.Popen(
        [sys.executable, "-m", "assay_shared.cli", *command],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"ASSAY_SHUTDOWN_GRACE_S": str(GRACE_S)} | environment,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        assert started.stderr is not None
        started.stderr.close()


def address(started: "subprocess.Popen[str]") -> str:
    """Return the address in its log."""
    assert started.stderr is not None
    for line in started.stderr:
        message = str(json.loads(line)["message"])
        if "listening on" in message:
            return message.split()[-1]
    raise AssertionError("it never listened")


async def outcomes(calls: list["asyncio.Task[object]"]) -> Counter[str]:
    """Return how calls ended; failed calls have to say a retry is right."""
    found: Counter[str] = Counter()
    for ended in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(ended, BaseException):
            assert isinstance(ended, InfrastructureError), repr(ended)
            assert ended.retryable, repr(ended)
            found[type(ended).__name__] += 1
        else:
            found["done"] += 1
    return found


@pytest.mark.slow
async def test_a_sandbox_stopped_under_load_finishes_or_says_to_ask_again() -> None:
    with running_sandbox(ASSAY_SHUTDOWN_GRACE_S=str(GRACE_S), ASSAY_SANDBOX_SLOTS="8") as sandbox:
        async with SandboxClient(sandbox.url, retry=NO_RETRY) as client:
            await client.health()
            calls: list[asyncio.Task[object]] = []
            for pause_s in PAUSES_S:
                code = f"import time\ntime.sleep({pause_s})\nprint('whole')"
                calls.append(asyncio.create_task(client.execute(ExecutionRequest(code=code))))
            await asyncio.sleep(0.5)
            os.kill(sandbox.process.pid, signal.SIGTERM)
            await asyncio.sleep(0.3)
            late = asyncio.create_task(client.execute(ExecutionRequest(code="")))
            found = await outcomes([*calls, late])
        wait_until(lambda: sandbox.process.poll() is not None, "the sandbox to end", 10)
    assert found["done"] >= 15, found
    assert found["NotReady"] >= 4, f"those over the time were not answered: {found}"
    assert found.total() == len(PAUSES_S) + 1
    for call, pause_s in zip(calls, PAUSES_S, strict=True):
        if pause_s < 1 and call.exception() is None:
            assert call.result().stdout == "whole\n"  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.promise("a failure is never a score")
async def test_a_reward_service_stopped_under_load_scores_nothing_zero() -> None:
    """Each answer is right, so a 0 would be a failure read as a score."""
    with running_sandbox(ASSAY_SANDBOX_SLOTS="8") as sandbox:
        urls = {"ASSAY_SANDBOX_URL": sandbox.url}
        with process("reward", "serve", "--port", "0", **urls) as reward:
            timeouts = Timeouts(total_s=20)
            url = await asyncio.to_thread(address, reward)
            async with RewardClient(url, retry=NO_RETRY, timeouts=timeouts) as client:
                await client.health()
                calls: list[asyncio.Task[object]] = []
                for pause_s in PAUSES_S:
                    code = f"import time\ndef f(x):\n    time.sleep({pause_s})\n    return x"
                    task = make_task("t", tests=(CallCase(function="f", args=(1,), expected=1),))
                    request = ScoreRequest(task=task, answers=(code,))
                    calls.append(asyncio.create_task(client.score(request)))
                await asyncio.sleep(0.6)
                reward.terminate()
                found = await outcomes(calls)
            wait_until(lambda: reward.poll() is not None, "the reward service to end", 10)
    assert found["done"] >= 10, found
    assert found["NotReady"] >= 4, found
    for call in calls:
        if call.exception() is None:
            response = call.result()
            assert isinstance(response, ScoreResponse)
            assert all(getattr(one, "value", 1.0) == 1.0 for one in response.rewards)


def slow_neighbours(pause_s: float) -> FastAPI:
    """Inference and reward in a single app; sampling takes its time."""

    @asynccontextmanager
    async def nothing(_: FastAPI) -> AsyncIterator[None]:
        yield

    app = create_service("slow", ServiceSettings(), nothing, cancel_on_disconnect=True)

    @app.post("/v1/generate")
    async def generate(request: GenerateRequest) -> GenerateResponse:
        await asyncio.sleep(pause_s)
        return GenerateResponse(
            prompt_token_ids=(1,), completions=(make_completion(),) * request.sampling.n
        )

    @app.post("/v1/score")
    async def score(request: ScoreRequest) -> ScoreResponse:
        return ScoreResponse(rewards=make_rewards(*(1.0 for _ in request.answers)), scorer="s@0")

    return app


def groups(number: int) -> list[GroupRequest]:
    sampling = SamplingParams(n=2)
    return [
        GroupRequest(key=f"g{i}", run="r", task=make_task(str(i)), sampling=sampling)
        for i in range(number)
    ]


def variables(url: str, valkey: TestValkey) -> dict[str, str]:
    names = ("ASSAY_INFERENCE_URL", "ASSAY_REWARD_URL")
    return dict.fromkeys(names, url) | {"ASSAY_REDIS_URL": valkey.url}


def leases(store: GroupStore, number: int) -> int:
    return len(store.leased([f"g{i}" for i in range(number)]))


@pytest.mark.parametrize(("pause_s", "finishes"), [(1.0, True), (30.0, False)])
@pytest.mark.slow
@pytest.mark.promise("each group counts once, whatever is killed")
def test_a_worker_stopped_in_mid_play_loses_no_group(
    serve: Serve, valkey: TestValkey, pause_s: float, finishes: bool
) -> None:
    """The worker stores groups finished in time; another plays the rest at once."""
    slow, quick = serve(slow_neighbours(pause_s)), serve(slow_neighbours(0.01))
    store = GroupStore(valkey.url)
    rollouts = RolloutDispatcher(make_celery(valkey.url), store, timeout_s=600, attempts=3)
    requests = groups(12)
    found: list[ScoredGroup] = []
    with process("worker", "--concurrency", "4", **variables(slow, valkey)) as first:
        for request in requests:
            rollouts.send(request)
        wait_until(lambda: leases(store, 12) == 4, "four groups in flight", 200)
        first.terminate()
        told = time.monotonic()
        wait_until(lambda: first.poll() is not None, "the worker to end", GRACE_S + 10)
        assert time.monotonic() - told < GRACE_S + 8
        assert first.returncode == 0
        assert leases(store, 12) == 0, "nothing is held by who is gone"
        found += rollouts.collect(0.1)
        assert (len(found) >= 4) is finishes
    with process("worker", "--concurrency", "4", **variables(quick, valkey)):
        deadline = time.monotonic() + 60
        while rollouts.num_in_flight and time.monotonic() < deadline:
            found += rollouts.collect(0.5)
    assert sorted(one.group.key for one in found) == sorted(one.key for one in requests)
    assert [one.failure for one in found if one.failure is not None] == []


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.slow
async def test_a_service_that_loads_a_checkpoint_stops_within_seconds(
    tmp_path: Path, is_first: bool
) -> None:
    """Weights with minutes to read, as the model to start with and as an announcement."""
    folder = tmp_path / "v1"
    make_policy_folder(folder)
    with (folder / "model.safetensors").open("r+b") as weights:
        weights.truncate(2**41)  # a hole, which takes no room
    model = ("--model", str(folder)) if is_first else ()
    named = {"ASSAY_RUNS": str(tmp_path), "ASSAY_SHUTDOWN_GRACE_S": "60"}
    with process("inference", "serve", "--port", "0", *model, **named) as inference:
        url = await asyncio.to_thread(address, inference)
        answer: asyncio.Task[tuple[int, str]] | None = None
        if not is_first:
            answer = asyncio.create_task(announce(url, folder))
        weights_file = folder / "model.safetensors"
        reads = partial(has_open, inference.pid, weights_file)
        await asyncio.to_thread(wait_until, reads, "the weights to be read", 120)
        inference.terminate()
        started = time.monotonic()
        await asyncio.to_thread(inference.wait, 15)
        assert time.monotonic() - started < 10
        if answer is not None:
            assert await answer == (503, "NotReady")


def has_open(pid: int, file: Path) -> bool:
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it is closed by now
            if one.readlink() == file.resolve():
                return True
    return False


async def announce(url: str, folder: Path) -> tuple[int, str]:
    """Return the status and the kind of error for an announced folder."""
    update = update_of(folder, PolicyVersion(version=1, digest="0" * 64))
    async with aiohttp.ClientSession() as session:
        answer = await session.post(f"{url}/v1/weights", json=update.model_dump(mode="json"))
        return answer.status, (await answer.json())["error"]["type"]


@pytest.mark.slow
async def test_what_a_process_logs_and_answers_holds_no_token(tmp_path: Path) -> None:
    """Right and wrong keys, broken requests, every log level, and the end of the process."""
    secrets = ("sesame-own", "sesame-alice", "sesame-wrong", "sesame-db")
    audit = tmp_path / "audit.jsonl"
    environment = {
        "ASSAY_TOKEN": "sesame-own",
        "ASSAY_CLIENT_TOKENS": '{"alice": {"token": "sesame-alice", "scopes": []}}',
        "ASSAY_REDIS_URL": "redis://:sesame-db@127.0.0.1:9/0",
        "ASSAY_LOG_LEVEL": "DEBUG",
        "ASSAY_AUDIT_FILE": str(audit),
        "ASSAY_RUNS": str(tmp_path),
    }
    with process("trainer", "serve", "--port", "0", **environment) as trainer:
        url = await asyncio.to_thread(address, trainer)
        shown = ""
        async with aiohttp.ClientSession() as session:
            for token in (*secrets, "", "sesame-own sesame"):
                for path in ("/v1/runs", "/v1/runs/sesame/stop", "/metrics", "/nowhere"):
                    headers = {"authorization": f"Bearer {token}"}
                    async with session.post(url + path, data=b"{", headers=headers) as response:
                        shown += await response.text() + str(dict(response.headers))
        trainer.terminate()
        assert trainer.stderr is not None
        shown += await asyncio.to_thread(trainer.stderr.read)
    shown += audit.read_text()
    assert '"action": "stop run"' in shown
    assert [secret for secret in secrets if secret in shown] == []


def test_a_worker_without_its_broker_shows_no_password(tmp_path: Path) -> None:
    url = "redis://:sesame-db@127.0.0.1:9/0"
    with process("worker", ASSAY_REDIS_URL=url, ASSAY_LOG_LEVEL="DEBUG") as worker:
        assert worker.stderr is not None
        lines = [worker.stderr.readline() for _ in range(5)]
        worker.terminate()
    assert "sesame" not in "".join(lines)
    with pytest.raises(AssayError, match="no Redis") as raised:
        GroupStore(url).check()
    assert "sesame" not in f"{raised.value!r} {raised.value.__cause__!r}"
