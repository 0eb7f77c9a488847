"""Weights changed many times under a real vLLM, and its failures meanwhile.

Every version is another random model, known by its greedy answer to a prompt, taken from the
reference in transformers: a completion under a wrong version's name is found.
"""

import asyncio
import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import torch
from fastapi import FastAPI

from assay_inference.api.app import create_app
from assay_inference.engines.child.engine import SupervisedEngine
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import AssayError, NotReady, WeightsRefused
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import (
    Completion,
    GenerateRequest,
    LogprobProbe,
    PolicyVersion,
    SamplingParams,
    WeightStatus,
)
from assay_shared.weights import checkpoint
from assay_trainer.learner.network.model import create_policy
from assay_trainer.weights.folder import publish_policy
from tests.conftest import Serve, wait_until
from tests.support.policies import SERVABLE, TEXTS, make_policy_folder, update_of
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_settings

NUM_VERSIONS = 200
NUM_CLIENTS = 6
PROMPT = tuple(range(20, 32))
GREEDY = SamplingParams(max_tokens=12, temperature=0)
HEALTH_TIMEOUT_S = 15.0
pytestmark = [NEEDS_VLLM, pytest.mark.slow, pytest.mark.timeout(2 * START_TIMEOUT_S + 300)]


class Version(NamedTuple):
    """A checkpoint and its greedy answer."""

    folder: Path
    digest: str
    answer: tuple[int, ...]
    probe: LogprobProbe


class Maker:
    """Makes versions of a network: other weights, the same tokenizer."""

    def __init__(self) -> None:
        self.network, self.tokenizer = create_policy(SERVABLE, TEXTS, seed=0)

    def make(self, folder: Path, seed: int) -> Version:
        """Layers stronger than the embedding: the answer is not a mere echo of the prompt's end."""
        random = torch.Generator().manual_seed(seed)
        with torch.inference_mode():
            for weight in self.network.parameters():
                if weight.ndim == 2:
                    weight.normal_(std=0.2, generator=random)
        digest = publish_policy(self.network, self.tokenizer, folder)
        ids, end = list(PROMPT), self.tokenizer.eos_token_id
        with torch.inference_mode():
            while len(ids) < len(PROMPT) + GREEDY.max_tokens and ids[-1] != end:
                logits_TV = self.network(torch.tensor([ids])).logits[0]
                ids.append(int(logits_TV[-1].argmax()))
        logprobs_TV = logits_TV[: len(PROMPT) - 1].float().log_softmax(dim=-1)
        logprobs = tuple(float(logprobs_TV[at, token]) for at, token in enumerate(PROMPT[1:]))
        probe = LogprobProbe(token_ids=PROMPT, logprobs=logprobs, tolerance=2e-3)
        return Version(folder, digest, tuple(ids[len(PROMPT) :]), probe)


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Version]:
    quiet_transformers()
    root = tmp_path_factory.mktemp("versions")
    maker = Maker()
    made = [maker.make(root / f"v{seed}", seed) for seed in range(NUM_VERSIONS)]
    assert len({version.answer for version in made}) == NUM_VERSIONS, "each is known by its answer"
    return made


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield create_app(
            vllm_settings(
                inference_health_interval_s=0.5, inference_health_timeout_s=HEALTH_TIMEOUT_S
            )
        )


@pytest.fixture(scope="module")
def url(app: FastAPI, serve_for_all: Serve) -> str:
    return serve_for_all(app)


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


class Trainer:
    """Publishes versions and knows the greedy answer of each."""

    def __init__(self, client: InferenceClient) -> None:
        self._client = client
        self.sent: dict[int, Version] = {}

    async def publish(self, version: Version) -> WeightStatus:
        served = (await self._client.weight_status()).policy
        number = max([served.version if served else 0, *self.sent]) + 1
        self.sent[number] = version
        policy = PolicyVersion(version=number, digest=version.digest)
        update = update_of(version.folder, policy, version.probe)
        return await self._client.update_weights(update)

    async def ask(self) -> Completion:
        """Return a greedy completion, the mark of its version."""
        request = GenerateRequest(token_ids=PROMPT, sampling=GREEDY)
        (completion,) = (await self._client.generate(request)).completions
        sent = self.sent[completion.policy.version]
        assert completion.policy.digest == sent.digest
        assert completion.token_ids == sent.answer, "it says what another version does"
        return completion

    async def ask_until_served(self) -> Completion:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return await self.ask()
            except NotReady:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.2)


@pytest.fixture
async def trainer(client: InferenceClient, versions: list[Version]) -> Trainer:
    """With version `versions[0]` served."""
    trainer = Trainer(client)
    await trainer.publish(versions[0])
    return trainer


async def test_200_versions_land_under_load_and_no_answer_is_mixed(
    trainer: Trainer, versions: list[Version]
) -> None:
    answered: set[int] = set()
    finished = asyncio.Event()

    async def load() -> int:
        for count in itertools.count():
            if finished.is_set():
                return count
            answered.add((await trainer.ask()).policy.version)
        raise AssertionError("unreachable")

    clients = [asyncio.create_task(load()) for _ in range(NUM_CLIENTS)]
    started = time.perf_counter()
    loads: list[WeightStatus] = []
    for version in versions:
        status = await trainer.publish(version)
        assert status.num_compared == status.num_tensors
        assert status.probe_difference is not None
        loads.append(status)
        assert (await trainer.ask()).policy == status.policy
    took_s = time.perf_counter() - started
    finished.set()
    num_answers = sum(await asyncio.gather(*clients))
    assert num_answers > NUM_VERSIONS
    assert len(answered) > NUM_VERSIONS / 2
    phases = {
        phase: round(sum(s.phases_s[phase] for s in loads) / len(loads), 4)
        for phase in loads[0].phases_s
    }
    worst = max(s.probe_difference or 0.0 for s in loads)
    facts = {"versions": len(loads), "seconds": round(took_s, 1), "answers": num_answers}
    sys.stderr.write(json.dumps(facts | {"phases_s": phases, "probe_difference": worst}) + "\n")


def engine_processes(app: FastAPI) -> list[psutil.Process]:
    """Return all processes of vLLM, the computing process last."""
    engine = app.state.engine
    assert isinstance(engine, SupervisedEngine)
    assert engine.child_pid is not None
    return psutil.Process(engine.child_pid).children(recursive=True)


def is_at_work(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_killed_in_mid_sync_it_comes_back_with_the_newest_version(
    app: FastAPI, trainer: Trainer, versions: list[Version]
) -> None:
    processes = engine_processes(app)
    engine = app.state.engine
    for process in processes:  # stopped, they cannot finish the load before they are killed
        process.suspend()
    publishing = asyncio.create_task(trainer.publish(versions[7]))
    while not engine.is_loading:  # noqa: ASYNC110  # it is on another thread's loop
        await asyncio.sleep(0)
    for process in processes:
        process.kill()
    status = await publishing
    assert status.policy is not None
    assert status.num_compared == status.num_tensors
    completion = await trainer.ask()
    assert completion.policy == status.policy
    assert completion.token_ids == versions[7].answer


async def test_hung_it_is_ended_and_its_version_served_again(
    app: FastAPI, trainer: Trainer
) -> None:
    served = await trainer.ask()
    processes = engine_processes(app)
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(NotReady, match="the engine was lost on the way") as raised:
        await trainer.ask()
    assert raised.value.retryable
    assert time.monotonic() - started < 2 * HEALTH_TIMEOUT_S
    with pytest.raises(NotReady, match="starting again") as raised:
        await trainer.ask()
    assert raised.value.retry_after_s is not None
    wait_until(lambda: not any(is_at_work(p) for p in processes), "the hung ones to end", 10)
    assert (await trainer.ask_until_served()).policy == served.policy


async def test_out_of_memory_it_is_started_again_with_the_version_that_it_served(
    app: FastAPI, trainer: Trainer, client: InferenceClient
) -> None:
    served = await trainer.ask()
    for process in engine_processes(app):
        in_use = process.memory_info().vms
        process.rlimit(psutil.RLIMIT_AS, (in_use, in_use))  # not a page more
    long = SamplingParams(max_tokens=100, n=64, temperature=1.0)
    request = GenerateRequest(token_ids=PROMPT * 2, sampling=long)
    failures: list[AssayError] = []
    deadline = time.monotonic() + 60
    while not failures:
        assert time.monotonic() < deadline, "the engine needs no more memory"
        try:
            await client.generate(request)
        except AssayError as error:
            failures.append(error)
    assert failures[0].retryable
    sys.stderr.write(f"out of memory: {failures[0].message}\n")
    assert (await trainer.ask_until_served()).policy == served.policy


def another_shape(folder: Path, version: Version) -> None:
    config = SERVABLE.model_copy(update={"intermediate_size": 96})
    make_policy_folder(folder, config=config)


def another_config(folder: Path, version: Version) -> None:
    shutil.copytree(version.folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.5}))


def cut_off(folder: Path, version: Version) -> None:
    shutil.copytree(version.folder, folder)
    (file,) = folder.glob("*.safetensors")
    os.truncate(file, file.stat().st_size // 2)


def half_transferred(folder: Path, version: Version) -> None:
    """The trainer died before it gave the folder its name."""
    shutil.copytree(version.folder, folder.with_name(f".{folder.name}.partial"))


def other_weights(folder: Path, version: Version) -> None:
    """Whole and well-formed, but other weights than the probe's."""
    Maker().make(folder, seed=999)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (another_shape, "another architecture"),
        (another_config, "config.json has rms_norm_eps 0.5"),
        (cut_off, "cut off"),
        (half_transferred, "there is no checkpoint folder"),
        (other_weights, "log-probabilities differ by"),
    ],
)
async def test_what_cannot_be_served_is_refused_and_the_old_version_goes_on(
    trainer: Trainer,
    versions: list[Version],
    tmp_path: Path,
    break_it: Callable[[Path, Version], None],
    message: str,
) -> None:
    before = await trainer.ask()
    folder = tmp_path / "new"
    break_it(folder, versions[3])
    digest = checkpoint.digest(folder) if folder.exists() else versions[3].digest
    started = time.monotonic()
    with pytest.raises(WeightsRefused, match=message):
        await trainer.publish(versions[3]._replace(folder=folder, digest=digest))
    assert time.monotonic() - started < 30
    assert (await trainer.ask()).policy == before.policy


async def test_another_digest_than_announced_is_refused(
    trainer: Trainer, versions: list[Version]
) -> None:
    before = await trainer.ask()
    with pytest.raises(WeightsRefused, match="digest"):
        await trainer.publish(versions[3]._replace(digest=versions[4].digest))
    assert (await trainer.ask()).policy == before.policy


async def test_without_a_folder_to_come_back_to_nothing_is_served_and_the_next_version_is(
    app: FastAPI, trainer: Trainer, versions: list[Version], tmp_path: Path, client: InferenceClient
) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(versions[5].folder, gone)
    served = await trainer.publish(versions[5]._replace(folder=gone))
    shutil.rmtree(gone)
    broken = tmp_path / "broken"
    other_weights(broken, versions[3])
    with pytest.raises(AssayError):
        await trainer.publish(versions[3]._replace(folder=broken, digest=checkpoint.digest(broken)))
    with pytest.raises(NotReady, match="no weights are loaded"):
        await trainer.ask()
    assert (await client.weight_status()).policy is None
    assert served.policy is not None
    trainer.sent[served.policy.version] = versions[5]
    status = await trainer.publish(versions[6])
    assert status.policy is not None
    assert status.policy.version > served.policy.version
    assert (await trainer.ask()).token_ids == versions[6].answer
