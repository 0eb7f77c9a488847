"""Weights from a trainer's memory into several engine processes of one service, over gloo.

A double stands for vLLM's server; the trainer, the service, the worker's code and the transfer are
real. The claimed version of each token is checked, as in `test_sync_modes`.
"""

import asyncio
import copy
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fastapi import FastAPI

from assay_inference.api.app import create_app
from assay_inference.engines.child.engine import SupervisedEngine
from assay_inference.engines.replicas.engine import ReplicaEngine
from assay_inference.engines.replicas.replica import LocalReplica
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY, Timeouts
from assay_shared.errors import NotReady, WeightsRefused
from assay_shared.settings.environment import ServiceSettings
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import (
    Completion,
    FolderWeights,
    GenerateRequest,
    SamplingParams,
    SyncMode,
    WeightStatus,
)
from assay_trainer.learner.network.model import create_policy
from assay_trainer.weights import sharded
from assay_trainer.weights.direct import DirectTransfer
from assay_trainer.weights.publisher import WeightPublisher
from tests.conftest import Serve
from tests.contract.test_sync_modes import LONG, explained
from tests.support.policies import TEXTS
from tests.support.vllm.double_interpreter import START_TIMEOUT_S, double_settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * START_TIMEOUT_S)]

NUM_PROCESSES = 3
NUM_CLIENTS = 6
TRANSFER_TIMEOUT_S = 30.0
PATIENT = Timeouts(read_s=START_TIMEOUT_S, total_s=START_TIMEOUT_S)
SAMPLING = SamplingParams(max_tokens=60, temperature=1.0, n=2)


@pytest.fixture(scope="module")
def app() -> FastAPI:
    quiet_transformers()
    return create_app(
        double_settings(
            inference_processes=NUM_PROCESSES,
            inference_health_interval_s=0.3,
            inference_transfer_timeout_s=TRANSFER_TIMEOUT_S,
        )
    )


@pytest.fixture(scope="module")
def url(app: FastAPI, serve_for_all: Serve) -> str:
    return serve_for_all(app)


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, timeouts=PATIENT, retry=NO_RETRY) as client:
        yield client


class Trainer:
    """The trainer's own publisher, and a copy of each version that it has published."""

    def __init__(self, url: str, folder: Path) -> None:
        settings = ServiceSettings(weight_transfer_bucket_bytes=100_000)
        self.by_folder: list[str] = []
        self.fell_back_at = 0.0
        self.references: dict[str, Any] = {}

        def connect() -> InferenceClient:
            return InferenceClient(url, timeouts=PATIENT, retry=NO_RETRY)

        self.direct = DirectTransfer(settings, connect)
        self.publisher = WeightPublisher(
            folder / "policy",
            connect,
            list(range(10, 40)),
            direct=self.direct,
            on_fallback=self._fall_back,
        )
        self.network, self.tokenizer = create_policy(LONG, TEXTS, seed=0)

    def _fall_back(self, version: int, reason: str) -> None:
        self.by_folder.append(reason)
        self.fell_back_at = time.monotonic()

    async def publish(self, mode: SyncMode = SyncMode.WAIT) -> WeightStatus:
        """Publish other weights."""
        with torch.no_grad():
            for parameter in self.network.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
            self.network.get_parameter("model.embed_tokens.weight").mul_(1.5)
        reference = SimpleNamespace(network=copy.deepcopy(self.network).eval())
        before = set(self.publisher.published)
        status = await asyncio.to_thread(self.publisher.publish, self.network, self.tokenizer, mode)
        for policy in set(self.publisher.published) - before:  # under one digest, or under two
            self.references[policy.digest] = reference
        assert status.policy is not None
        return status


@pytest.fixture
async def trainer(url: str, tmp_path: Path, client: InferenceClient) -> AsyncIterator[Trainer]:
    """Begin with a version by a folder, served by all processes."""
    trainer = Trainer(url, tmp_path)
    assert isinstance((await trainer.publish()).source, FolderWeights)
    await all_serve(client)
    yield trainer
    trainer.direct.close()


async def all_serve(client: InferenceClient) -> WeightStatus:
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            status = await client.weight_status()
            found = {(one.policy, one.failure is None) for one in status.replicas.values()}
            if found == {(status.policy, True)}:
                assert len(status.replicas) == NUM_PROCESSES
                return status
            await asyncio.sleep(0.05)


class Load:
    """Clients that ask all the time, and ask again after a failure that may be retried."""

    def __init__(self, url: str) -> None:
        self.answers: list[tuple[tuple[int, ...], Completion]] = []
        self.num_retries = 0
        self._url = url
        self._is_over = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with InferenceClient(self._url, timeouts=PATIENT, retry=NO_RETRY) as client:
            asking = [asyncio.create_task(self._ask(client, n + 1)) for n in range(NUM_CLIENTS)]
            try:
                yield
            finally:
                self._is_over = True
                await asyncio.gather(*asking)

    async def _ask(self, client: InferenceClient, prompt: int) -> None:
        while not self._is_over:
            request = GenerateRequest(token_ids=(prompt, 7), sampling=SAMPLING)
            try:
                answer = await client.generate(request)
            except NotReady:
                self.num_retries += 1
                await asyncio.sleep(0.05)
                continue
            self.answers += [(answer.prompt_token_ids, one) for one in answer.completions]

    def check(self, references: dict[str, Any]) -> None:
        """Check that each token is of the weights that it names."""
        assert self.answers
        for prompt, completion in self.answers:
            assert explained(references, prompt, completion, SAMPLING.temperature)


def engines(app: FastAPI) -> list[SupervisedEngine]:
    router = app.state.engine
    assert isinstance(router, ReplicaEngine)
    found = []
    for member in router._members.values():
        assert isinstance(member.replica, LocalReplica)
        assert isinstance(member.replica._engine, SupervisedEngine)
        found.append(member.replica._engine)
    return found


def kill(app: FastAPI, number: int) -> None:
    pid = engines(app)[number].child_pid
    assert pid is not None
    os.killpg(pid, signal.SIGKILL)


@pytest.mark.parametrize("mode", list(SyncMode))
async def test_versions_reach_all_processes_under_load_and_each_token_names_its_own(
    url: str, client: InferenceClient, trainer: Trainer, tmp_path: Path, mode: SyncMode
) -> None:
    load = Load(url)
    async with load.running():
        for _ in range(5):
            await asyncio.sleep(0.3)
            status = await trainer.publish(mode)
            assert status.source is None, "it came directly"
            assert status.num_compared == status.num_tensors
            assert status.probe_difference is not None
            assert {one.policy for one in status.replicas.values()} == {status.policy}
            assert status.receiver is not None
            assert status.receiver.devices == ("cpu",) * NUM_PROCESSES
    assert trainer.by_folder == []
    assert len(list((tmp_path / "policy").glob("v*"))) == 1, "only the first was written"
    assert load.num_retries == 0
    load.check(trainer.references)
    mixed = [completion for _, completion in load.answers if completion.versions]
    assert bool(mixed) == (mode is SyncMode.CONTINUE)
    for completion in mixed:
        versions = [span.policy.version for span in completion.versions]
        assert versions == sorted(set(versions))
        assert completion.policy == completion.versions[-1].policy


@pytest.fixture
def in_mid_transfer(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """Calls to make once, before the last tensor of the next transfer is sent."""
    calls: list[Callable[[], None]] = []
    plain = sharded.bucket_reader

    def reader(model: Any, tensors: Any, buckets: Any) -> Callable[[str], torch.Tensor]:
        read, last = plain(model, tensors, buckets), buckets[-1].slots[-1].entry.name

        def tensor_of(name: str) -> torch.Tensor:
            while name == last and calls:
                calls.pop()()
            return read(name)

        return tensor_of

    monkeypatch.setattr("assay_trainer.weights.direct.bucket_reader", reader)
    yield calls
    assert not calls


@pytest.mark.parametrize(
    ("old", "mode"),
    [
        ("by a folder", SyncMode.WAIT),
        ("directly", SyncMode.CONTINUE),
        pytest.param("by a folder", SyncMode.CONTINUE, marks=pytest.mark.nightly),
        pytest.param("directly", SyncMode.WAIT, marks=pytest.mark.nightly),
    ],
)
async def test_a_process_that_dies_in_mid_transfer_fails_it_and_a_folder_brings_all_together(
    url: str,
    app: FastAPI,
    client: InferenceClient,
    trainer: Trainer,
    in_mid_transfer: list[Callable[[], None]],
    old: str,
    mode: SyncMode,
) -> None:
    if old == "directly":
        assert (await trainer.publish()).source is None
    load = Load(url)
    async with load.running():
        await asyncio.sleep(0.3)
        killed_at: list[float] = []

        def strike() -> None:
            killed_at.append(time.monotonic())
            kill(app, 1)

        in_mid_transfer.append(strike)
        status = await trainer.publish(mode)
        assert isinstance(status.source, FolderWeights)
        (reason,) = trainer.by_folder
        # Neither the limit of the transfer nor the new process is waited for.
        assert trainer.fell_back_at - killed_at[0] < TRANSFER_TIMEOUT_S / 2
        assert f"did not take version {status.policy.version} directly" in reason  # type: ignore[union-attr]
        serving = await all_serve(client)
        assert serving == status.model_copy(update={"replicas": serving.replicas})
        after = await trainer.publish(mode)
        assert after.source is None, "directly again"
        await asyncio.sleep(0.3)
    assert len(trainer.by_folder) == 1
    load.check(trainer.references)
    assert {completion.policy for _, completion in load.answers} >= {status.policy, after.policy}


async def test_a_process_that_lost_a_direct_version_waits_for_a_folder_while_others_serve(
    url: str, app: FastAPI, client: InferenceClient, trainer: Trainer
) -> None:
    served = await trainer.publish()
    assert served.source is None
    assert served.policy is not None
    kill(app, 2)
    async with asyncio.timeout(60):
        while (await client.weight_status()).replicas["process-2"].failure is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    load = Load(url)
    async with load.running():
        await asyncio.sleep(1.5)  # it is checked meanwhile, and given nothing
    assert {completion.policy for _, completion in load.answers} == {served.policy}
    lost = (await client.weight_status()).replicas["process-2"]
    assert lost.failure is not None
    assert "came directly, and is lost here" in lost.failure.message
    await asyncio.to_thread(trainer.publisher.ensure_served, 0.0)
    assert (await client.weight_status()).policy == served.policy
    status = await trainer.publish()
    assert isinstance(status.source, FolderWeights)
    version = served.policy.version
    assert trainer.by_folder == [
        f"process-2 does not serve version {version}: version {version} came directly, "
        "and is lost here"
    ]
    await all_serve(client)
    assert (await trainer.publish()).source is None, "directly again"
    assert len(trainer.by_folder) == 1
    load.check(trainer.references)


async def test_a_new_trainer_first_shows_its_configuration_by_a_folder(
    url: str, tmp_path: Path, trainer: Trainer
) -> None:
    assert (await trainer.publish()).source is None
    other = Trainer(url, tmp_path / "other")
    other.network.config.eos_token_id = 5
    with pytest.raises(WeightsRefused, match="config.json has eos_token_id 5"):
        await other.publish()
    other.network.config.eos_token_id = trainer.network.config.eos_token_id
    assert isinstance((await other.publish()).source, FolderWeights)
    assert (await other.publish()).source is None
    other.direct.close()
    assert other.by_folder == []


async def test_a_version_that_all_processes_lost_is_published_again(
    app: FastAPI, client: InferenceClient, trainer: Trainer
) -> None:
    served = await trainer.publish()
    for number in range(NUM_PROCESSES):
        kill(app, number)
    async with asyncio.timeout(60):
        while (await client.weight_status()).policy is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    request = GenerateRequest(token_ids=(1, 7), sampling=SAMPLING)
    with pytest.raises(NotReady, match="no replica serves"):
        await client.generate(request)
    await asyncio.to_thread(trainer.publisher.ensure_served, 0.0)
    status = await all_serve(client)
    assert status.policy == served.policy
    answer = await client.generate(request)
    for one in answer.completions:
        assert explained(trainer.references, answer.prompt_token_ids, one, SAMPLING.temperature)
