"""Weights from a trainer's memory into a real vLLM's, and failures of either meanwhile.

Over gloo, between two processes of a machine: the same buckets as over NCCL and CUDA IPC.
"""

import asyncio
import contextlib
import functools
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
from fastapi import FastAPI

from assay_inference.api.app import create_app
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY, Timeouts
from assay_shared.errors import NotReady, WeightsRefused
from assay_shared.settings.environment import ServiceSettings
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import (
    FolderWeights,
    GenerateRequest,
    PolicyVersion,
    WeightStatus,
    WeightUpdate,
)
from assay_shared.weights import checkpoint
from assay_trainer.weights.direct import DirectTransfer
from assay_trainer.weights.publisher import WeightPublisher
from assay_trainer.weights.safetensors_writer import named_weights
from tests.conftest import Serve
from tests.engines.vllm.test_weights import GREEDY, PROMPT, Maker, Version, engine_processes
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_settings

NUM_VERSIONS = 30
NUM_CLIENTS = 4
TRANSFER_TIMEOUT_S = 20.0
#: The first announcement waits for vLLM to start.
PATIENT = Timeouts(read_s=START_TIMEOUT_S, total_s=START_TIMEOUT_S)
pytestmark = [NEEDS_VLLM, pytest.mark.slow, pytest.mark.timeout(2 * START_TIMEOUT_S + 300)]


@pytest.fixture(scope="module")
def app() -> Iterator[FastAPI]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield create_app(
            vllm_settings(
                inference_health_interval_s=0.5,
                inference_health_timeout_s=20,
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


@pytest.fixture(scope="module")
def maker() -> Maker:
    quiet_transformers()
    return Maker()


class Publishing:
    """The trainer's own publisher, and the greedy answer of each version."""

    def __init__(self, url: str, maker: Maker, folder: Path, host: str = "127.0.0.1") -> None:
        settings = ServiceSettings(weight_transfer_bucket_bytes=100_000, weight_transfer_host=host)
        self.by_folder: list[str] = []

        def connect() -> InferenceClient:
            return InferenceClient(url, timeouts=PATIENT, retry=NO_RETRY)

        self.direct = DirectTransfer(settings, connect)
        self.publisher = WeightPublisher(
            folder / "policy",
            connect,
            list(PROMPT),
            direct=self.direct,
            on_fallback=lambda version, reason: self.by_folder.append(reason),
        )
        self._maker, self._folder = maker, folder
        self.sent: dict[int, Version] = {}

    async def publish(self, seed: int) -> WeightStatus:
        version = self._maker.make(self._folder / "made" / str(seed), seed)
        status = await asyncio.to_thread(
            self.publisher.publish, self._maker.network, self._maker.tokenizer
        )
        assert status.policy is not None
        self.sent[status.policy.version] = version
        return status

    async def ask(self, client: InferenceClient) -> PolicyVersion:
        """Return a greedy completion, the mark of its version."""
        request = GenerateRequest(token_ids=PROMPT, sampling=GREEDY)
        (completion,) = (await client.generate(request)).completions
        expected = self.sent.get(completion.policy.version)
        assert expected is None or completion.token_ids == expected.answer
        return completion.policy


@pytest.fixture
async def publishing(url: str, maker: Maker, tmp_path: Path) -> AsyncIterator[Publishing]:
    """Serve a version from a folder first; an engine can come back to it."""
    publishing = Publishing(url, maker, tmp_path)
    assert isinstance((await publishing.publish(seed=1000)).source, FolderWeights)
    yield publishing
    publishing.direct.close()


async def test_30_versions_land_directly_under_load_and_no_answer_is_mixed(
    publishing: Publishing, client: InferenceClient, tmp_path: Path
) -> None:
    finished = asyncio.Event()

    async def load() -> int:
        for count in itertools.count():
            if finished.is_set():
                return count
            await publishing.ask(client)
        raise AssertionError("unreachable")

    clients = [asyncio.create_task(load()) for _ in range(NUM_CLIENTS)]
    started = time.perf_counter()
    loads = []
    for seed in range(NUM_VERSIONS):
        status = await publishing.publish(seed)
        assert status.source is None, "it came directly"
        assert status.num_compared == status.num_tensors
        assert status.probe_difference is not None
        assert await publishing.ask(client) == status.policy
        loads.append(status)
    took_s = time.perf_counter() - started
    finished.set()
    num_answers = sum(await asyncio.gather(*clients))
    assert num_answers > NUM_VERSIONS
    assert publishing.by_folder == []
    assert len(list((tmp_path / "policy").glob("v*"))) == 1, "only the first version was written"
    phases = {
        phase: round(sum(s.phases_s[phase] for s in loads) / len(loads), 4)
        for phase in loads[0].phases_s
    }
    worst = max(status.probe_difference or 0.0 for status in loads)
    facts = {"versions": len(loads), "seconds": round(took_s, 1), "answers": num_answers}
    sys.stderr.write(json.dumps(facts | {"phases_s": phases, "probe_difference": worst}) + "\n")


async def test_all_that_the_engine_holds_is_compared_on_demand(
    publishing: Publishing, client: InferenceClient
) -> None:
    for publish in (client.weight_status, functools.partial(publishing.publish, seed=50)):
        served = await publish()
        digest = await client.weight_digest()
        assert digest.policy == served.policy
        assert digest.differing == ()
        assert digest.num_whole > 0
        assert digest.num_whole + digest.num_sampled == digest.num_tensors
    sys.stderr.write(digest.model_dump_json() + "\n")


async def announce(
    client: InferenceClient, folder: Path, what: str, version: int
) -> tuple[float, str]:
    """Have another process send and announce `folder`; return the seconds and the refusal."""
    trainer = subprocess.Popen(  # noqa: ASYNC220  # it starts at once
        [
            sys.executable,
            "-m",
            "tests.support.vllm.direct_trainer",
            str(folder),
            str(version),
            what,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert trainer.stdout is not None
        update = WeightUpdate.model_validate_json(await asyncio.to_thread(trainer.stdout.readline))
        started = time.monotonic()
        try:
            await client.update_weights(update)
        except WeightsRefused as error:
            return time.monotonic() - started, error.message
        return time.monotonic() - started, ""
    finally:
        trainer.kill()
        trainer.communicate()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("all", ""),
        ("corrupt", "did not arrive as it was sent"),
        ("SIGKILL", "did not arrive: the trainer"),
        ("SIGSTOP", f"did not come within {TRANSFER_TIMEOUT_S:g} s"),
    ],
)
async def test_what_does_not_arrive_whole_is_refused_in_time_and_the_old_version_comes_back(
    publishing: Publishing,
    client: InferenceClient,
    maker: Maker,
    tmp_path: Path,
    what: str,
    message: str,
) -> None:
    before = await publishing.ask(client)
    new = maker.make(tmp_path / "new", seed=60)
    took_s, refusal = await announce(client, new.folder, what, before.version + 1)
    assert message in refusal
    assert bool(message) == bool(refusal)
    assert took_s < TRANSFER_TIMEOUT_S + 30
    request = GenerateRequest(token_ids=PROMPT, sampling=GREEDY)
    (completion,) = (await client.generate(request)).completions
    digest = await client.weight_digest()
    assert digest.differing == ()
    if what == "all":
        assert completion.policy.version == before.version + 1
        assert completion.token_ids == new.answer
    else:
        assert completion.policy == before


async def test_a_version_that_is_in_no_folder_is_published_again_when_it_is_lost(
    publishing: Publishing, client: InferenceClient, maker: Maker, tmp_path: Path
) -> None:
    """After a broken transfer onto it, and after the engine was killed."""
    served = await publishing.publish(seed=70)
    assert served.source is None
    assert served.policy is not None
    new = maker.make(tmp_path / "new", seed=71)
    maker.make(tmp_path / "again", seed=70)  # the trainer's model is what it was
    _, refusal = await announce(client, new.folder, "SIGKILL", served.policy.version + 1)
    assert "did not arrive" in refusal
    assert (await client.weight_status()).policy is None
    with pytest.raises(NotReady, match="has to be published again"):
        await publishing.ask(client)
    await asyncio.to_thread(publishing.publisher.ensure_served, 0.0)
    assert await publishing.ask(client) == served.policy
    assert publishing.by_folder == []


async def test_an_engine_that_was_killed_gets_the_version_again(
    app: FastAPI, publishing: Publishing, client: InferenceClient
) -> None:
    served = await publishing.publish(seed=80)
    for process in engine_processes(app):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (await client.weight_status()).policy is not None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    await asyncio.to_thread(publishing.publisher.ensure_served, 0.0)
    assert await publishing.ask(client) == served.policy


async def test_what_cannot_go_directly_goes_by_a_folder_and_says_why(
    url: str, publishing: Publishing, client: InferenceClient, maker: Maker, tmp_path: Path
) -> None:
    publishing = Publishing(url, maker, tmp_path, host="192.0.2.1")  # an address that nobody has
    await publishing.publish(seed=89)
    assert publishing.by_folder == []
    status = await publishing.publish(seed=90)
    assert isinstance(status.source, FolderWeights)
    assert await publishing.ask(client) == status.policy
    assert len(publishing.by_folder) == 1
    assert named_weights(maker.network).keys() == checkpoint_names(status.source.path)


def checkpoint_names(folder: str) -> set[str]:
    from safetensors import safe_open

    (file,) = checkpoint.weight_files(Path(folder))
    with safe_open(file, "pt") as content:
        return set(content.keys())
