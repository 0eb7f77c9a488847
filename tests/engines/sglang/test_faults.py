"""SGLang's adapter with a killed, hanging or disobedient server: by a double."""

import asyncio
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from fastapi import FastAPI

from assay_inference.api.app import create_app
from assay_inference.engines.child.engine import SupervisedEngine
from assay_inference.engines.sglang.child import SglangReplica
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, InvalidInput, NotReady, WeightsRefused
from assay_shared.types import (
    DirectWeights,
    GenerateRequest,
    PolicyVersion,
    SamplingParams,
    Structure,
    SyncMode,
    TensorSpec,
)
from assay_shared.weights import checkpoint
from tests.conftest import Serve
from tests.support.policies import SERVABLE, make_policy_folders, update_of
from tests.support.sglang.interpreter import START_TIMEOUT_S, sglang_settings
from tests.support.sglang.scheduler import KEEPS_OLD

HEALTH_TIMEOUT_S = 20.0
GREEDY = GenerateRequest(prompt="x", sampling=SamplingParams(max_tokens=12, temperature=0))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * START_TIMEOUT_S)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_policy_folders(
        tmp_path_factory.mktemp("policies"), 2, sharpness=3.0, config=SERVABLE
    )


@pytest.fixture(scope="module")
def marker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file exists, an update leaves the named tensor unchanged."""
    return tmp_path_factory.mktemp("marker") / "keeps_old"


@contextmanager
def keeping_old(marker: Path, name: str) -> Iterator[None]:
    marker.write_text(name)
    try:
        yield
    finally:
        marker.unlink()


@pytest.fixture(scope="module")
def app(folders: list[Path], marker: Path) -> Iterator[FastAPI]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEEPS_OLD, str(marker))
        yield create_app(
            sglang_settings(
                inference_model=folders[0],
                inference_health_interval_s=0.5,
                inference_health_timeout_s=HEALTH_TIMEOUT_S,
            )
        )


@pytest.fixture(scope="module")
def url(app: FastAPI, serve_for_all: Serve) -> str:
    return serve_for_all(app)


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


def replica_of(app: FastAPI) -> SglangReplica:
    engine = app.state.engine
    assert isinstance(engine, SupervisedEngine)
    replica = engine._replica
    assert isinstance(replica, SglangReplica)
    return replica


def processes(app: FastAPI) -> list[psutil.Process]:
    return psutil.Process(replica_of(app).process.pid).children(recursive=True)


async def next_version(client: InferenceClient, folder: Path) -> PolicyVersion:
    served = (await client.weight_status()).policy
    assert served is not None
    return PolicyVersion(version=served.version + 1, digest=checkpoint.digest(folder))


async def served_again(client: InferenceClient) -> PolicyVersion:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return (await client.generate(GREEDY)).completions[0].policy
        except NotReady:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)


async def test_nobody_else_on_the_machine_can_call_the_child(
    app: FastAPI, client: InferenceClient
) -> None:
    await client.generate(GREEDY)
    process = replica_of(app).process
    assert process.url.startswith("http://127.0.0.1:")
    async with httpx.AsyncClient(base_url=process.url, timeout=60) as stranger:
        for path in ("/generate", "/update_weights_from_disk", "/weights_checker"):
            assert (await stranger.post(path, json={})).status_code == 401
    for child in processes(app):
        assert process.api_key not in " ".join(child.cmdline())
        assert process.api_key not in str(child.environ())


async def test_its_own_metrics_are_shown(client: InferenceClient, url: str) -> None:
    await client.generate(GREEDY)
    deadline, shown = time.monotonic() + 60, ""
    async with httpx.AsyncClient(timeout=60) as reader:
        while "sglang:generation_tokens_total" not in shown:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
            shown = (await reader.get(f"{url}/metrics")).text


@pytest.mark.parametrize(
    "name", ["model.layers.1.self_attn.k_proj.weight", "model.embed_tokens.weight"]
)
async def test_an_update_that_left_a_tensor_as_it_was_is_refused(
    client: InferenceClient, folders: list[Path], marker: Path, name: str
) -> None:
    before = (await client.generate(GREEDY)).completions[0]
    other = folders[before.policy.digest == checkpoint.digest(folders[0])]
    policy = await next_version(client, other)
    with (
        keeping_old(marker, name),
        pytest.raises(WeightsRefused, match="differs from the checkpoint's"),
    ):
        await client.update_weights(update_of(other, policy))
    assert (await served_again(client)) == before.policy
    after = (await client.generate(GREEDY)).completions[0]
    assert after.token_ids == before.token_ids
    status = await client.update_weights(update_of(other, policy))
    assert status.policy == policy
    assert status.num_compared == status.num_tensors


async def test_killed_in_mid_sync_it_comes_back_with_the_newest_version(
    app: FastAPI, client: InferenceClient, folders: list[Path]
) -> None:
    family, engine = processes(app), app.state.engine
    policy = await next_version(client, folders[1])
    for process in family:  # stopped, it cannot finish the load before it is killed
        process.suspend()
    publishing = asyncio.create_task(client.update_weights(update_of(folders[1], policy)))
    while not engine.is_loading:  # noqa: ASYNC110  # it is on another thread's loop
        await asyncio.sleep(0)
    for process in family:
        process.kill()
    status = await publishing
    assert status.policy == policy
    assert status.num_compared == status.num_tensors
    assert (await client.generate(GREEDY)).completions[0].policy == policy


@pytest.mark.nightly
async def test_hung_it_is_ended_and_its_version_served_again(
    app: FastAPI, client: InferenceClient
) -> None:
    before = (await client.generate(GREEDY)).completions[0]
    family = processes(app)
    for process in family:
        process.send_signal(signal.SIGSTOP)
    with pytest.raises(NotReady) as raised:
        await client.generate(GREEDY)
    assert raised.value.retryable
    assert await served_again(client) == before.policy
    assert not any(process.is_running() for process in family)
    assert (await client.generate(GREEDY)).completions[0].token_ids == before.token_ids


@pytest.mark.nightly
async def test_without_the_old_folder_nothing_is_served_and_it_says_so(
    client: InferenceClient, folders: list[Path], marker: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(folders[0], gone)
    await client.update_weights(update_of(gone, await next_version(client, gone)))
    shutil.rmtree(gone)
    policy = await next_version(client, folders[1])
    with keeping_old(marker, "model.embed_tokens.weight"), pytest.raises(WeightsRefused):
        await client.update_weights(update_of(folders[1], policy))
    with pytest.raises(NotReady, match="no weights are loaded"):
        await client.generate(GREEDY)
    assert (await client.weight_status()).policy is None
    assert (await client.update_weights(update_of(folders[1], policy))).policy == policy


async def test_what_it_cannot_do_is_refused_by_name(
    client: InferenceClient, folders: list[Path]
) -> None:
    before = (await client.weight_status()).policy
    update = update_of(folders[0], await next_version(client, folders[0]))
    for mode in (SyncMode.RESTART, SyncMode.CONTINUE):
        with pytest.raises(InvalidInput, match="wait for sequences in flight") as raised:
            await client.update_weights(update.model_copy(update={"mode": mode}))
        assert raised.value.field == "mode"
    spec = TensorSpec(name="a", dtype="float32", shape=(1,), fingerprint="0" * 16)
    direct = DirectWeights(
        transport="gloo",
        host="127.0.0.1",
        port=1,
        token="x" * 16,
        announcement=1,
        bucket_bytes=4,
        tensors=(spec,),
    )
    with pytest.raises(InvalidInput, match="no weights directly") as raised:
        await client.update_weights(update.model_copy(update={"source": direct}))
    assert raised.value.field == "source.kind"
    held = GREEDY.sampling.model_copy(update={"structure": Structure(regex="a+")})
    with pytest.raises(InvalidInput, match="cannot hold an answer to a form") as raised:
        await client.generate(GREEDY.model_copy(update={"sampling": held}))
    assert raised.value.field == "sampling.structure"
    assert (await client.weight_status()).policy == before
    assert (await client.weight_status()).receiver is None


async def test_a_first_start_that_fails_is_told(serve: Serve, folders: list[Path]) -> None:
    refused = create_app(sglang_settings(inference_sglang_arguments="--no-such-option"))
    async with InferenceClient(serve(refused), retry=NO_RETRY) as client:
        policy = PolicyVersion(version=1, digest=checkpoint.digest(folders[0]))
        with pytest.raises(WeightsRefused, match="unrecognized arguments: --no-such-option"):
            await client.update_weights(update_of(folders[0], policy))


@pytest.mark.nightly
async def test_several_gpus_and_seeds_that_are_off_are_refused_by_name(
    serve: Serve, folders: list[Path]
) -> None:
    several = create_app(sglang_settings(inference_sglang_arguments="--tp-size 2"))
    policy = PolicyVersion(version=1, digest=checkpoint.digest(folders[0]))
    async with InferenceClient(serve(several), retry=NO_RETRY) as client:
        with pytest.raises(ConfigError, match="several GPUs"):
            await client.update_weights(update_of(folders[0], policy))
    unseeded = create_app(sglang_settings(inference_sglang_seeds=False))
    async with InferenceClient(serve(unseeded), retry=NO_RETRY) as client:
        await client.update_weights(update_of(folders[0], policy))
        drawn = SamplingParams(n=8, max_tokens=16, temperature=2.0)
        answer = await client.generate(GenerateRequest(prompt="x", sampling=drawn))
        assert len({completion.token_ids for completion in answer.completions}) > 1
        seeded = GenerateRequest(prompt="x", sampling=drawn.model_copy(update={"seed": 1}))
        with pytest.raises(InvalidInput, match="repeats no sample"):
            await client.generate(seeded)


def test_the_child_sees_no_setting_of_ours(app: FastAPI, client: InferenceClient) -> None:
    for process in processes(app):
        assert not [name for name in process.environ() if name.startswith("ASSAY_")]
        assert process.environ()["SGLANG_RETURN_ORIGINAL_LOGPROB"] == "0"
        temporary = Path(process.environ()["TMPDIR"])
        assert temporary.stat().st_mode & 0o77 == 0
