"""A router over real inference services: killed under load, late, and by prompt prefix."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aiohttp
import openai
import pytest

from assay_inference.api.app import create_app
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.clients.weight_upload import upload_weights
from assay_shared.errors import ConfigError, InvalidInput, WeightsRefused
from assay_shared.runtime.processes import spawn
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import (
    GenerateRequest,
    GenerateResponse,
    PolicyVersion,
    SamplingParams,
    SyncMode,
    UploadedWeights,
    WeightStatus,
    WeightUpdate,
)
from assay_shared.weights import checkpoint
from assay_trainer.evaluate.policy.serving import publish_folder
from assay_trainer.learner.network.model import create_policy
from assay_trainer.weights.direct import DirectTransfer
from assay_trainer.weights.publisher import WeightPublisher
from tests.conftest import Serve, wait_until
from tests.support.policies import TEXTS, TINY, make_policy_folders, update_of
from tests.support.ports import free_port

pytestmark = pytest.mark.timeout(900)

SAMPLING = SamplingParams(n=2, max_tokens=24, seed=3)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_policy_folders(tmp_path_factory.mktemp("policies"), 3, sharpness=3.0)


def cpu_settings(**values: object) -> InferenceSettings:
    return InferenceSettings.model_validate({"inference_device": "cpu"} | values)


def router_settings(*urls: str) -> InferenceSettings:
    return cpu_settings(
        inference_engine="replicas",
        inference_replicas=",".join(urls),
        inference_health_interval_s=0.2,
        inference_health_timeout_s=120,
    )


class ReplicaProcess:
    """A separate inference service, for a test to kill and start again."""

    def __init__(self, log: Path) -> None:
        self.url = ""
        self._log = log
        self.start()

    def start(self, **environment: str) -> None:
        port = self.url.rpartition(":")[2] or str(free_port())
        self._log.unlink(missing_ok=True)
        self.process = spawn(
            [sys.executable, "-m", "assay_shared.cli", "inference", "serve", "--port", port],
            log=self._log,
            environment=os.environ | {"ASSAY_INFERENCE_DEVICE": "cpu"} | environment,
        )
        wait_until(lambda: "listening on" in self._log.read_text(), "the replica to listen", 300)
        self.url = self._log.read_text().partition("listening on ")[2].partition('"')[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[ReplicaProcess]]:
    started = [ReplicaProcess(tmp_path / f"{name}.log") for name in ("doomed", "other")]
    yield started
    for one in started:
        if one.process.poll() is None:
            one.kill()


@pytest.fixture
def replica_urls(serve: Serve) -> list[str]:
    return [serve(create_app(cpu_settings())) for _ in range(3)]


@pytest.fixture
async def client(serve: Serve, replica_urls: list[str]) -> AsyncIterator[InferenceClient]:
    url = serve(create_app(router_settings(*replica_urls)))
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


async def publish(client: InferenceClient, folder: Path, number: int) -> WeightStatus:
    policy = PolicyVersion(version=number, digest=checkpoint.digest(folder))
    return await client.update_weights(update_of(folder, policy))


async def until(
    client: InferenceClient, is_so: Callable[[WeightStatus], bool], timeout_s: float = 300.0
) -> WeightStatus:
    async with asyncio.timeout(timeout_s):
        while not is_so(status := await client.weight_status()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return status


@pytest.mark.parametrize("transfer", ["folder", "upload"])
async def test_replicas_that_see_no_folder_of_the_router_get_an_upload(
    serve: Serve, tmp_path: Path, folders: list[Path], transfer: str
) -> None:
    """The router sends each replica what it has as a folder, announced to it or uploaded to it."""
    nowhere = {"inference_weight_roots": "", "runs": tmp_path / "nowhere"}
    urls = [serve(create_app(cpu_settings(**nowhere))) for _ in range(2)]
    settings = router_settings(*urls).model_copy(update={"weight_transfer": transfer})
    async with InferenceClient(serve(create_app(settings)), retry=NO_RETRY) as client:
        told = [await publish(client, folders[0], 1)]
        uploaded = await upload_weights(client, folders[1])
        policy = PolicyVersion(version=2, digest=checkpoint.digest(folders[1]))
        update = WeightUpdate(source=UploadedWeights(upload=uploaded.id), policy=policy)
        told.append(await client.update_weights(update))
        for version, status in enumerate(told, 1):
            served = {one.policy and one.policy.version for one in status.replicas.values()}
            assert served == {version}
        answer = await client.generate(GenerateRequest(prompt=TEXTS[0], sampling=SAMPLING))
        assert versions([answer]) == {2}


def versions(answers: list[GenerateResponse]) -> set[int]:
    return {c.policy.version for answer in answers for c in answer.completions}


@pytest.mark.slow
async def test_a_replica_that_is_killed_under_load_costs_no_request_and_comes_back_with_the_newest(
    serve: Serve, processes: list[ReplicaProcess], folders: list[Path]
) -> None:
    doomed, other = processes
    router = serve(create_app(router_settings(doomed.url, other.url)))
    async with InferenceClient(router, retry=NO_RETRY) as client:
        status = await publish(client, folders[1], 1)
        assert {one.policy for one in status.replicas.values()} == {status.policy}

        long = SamplingParams(n=4, max_tokens=100)
        asked = [
            asyncio.create_task(client.generate(GenerateRequest(token_ids=(n + 1,), sampling=long)))
            for n in range(24)
        ]
        await until(client, lambda s: s.replicas[doomed.url].num_in_flight > 0)
        doomed.kill()
        answers = await asyncio.gather(*asked)
        assert [len(answer.completions) for answer in answers] == [4] * 24
        assert versions(answers) == {1}

        status = await publish(client, folders[2], 2)
        assert status.policy is not None
        assert status.policy.version == 2
        assert status.replicas[other.url].failure is None
        failure = status.replicas[doomed.url].failure
        assert failure is not None
        assert failure.retryable

        # It comes back with the first weights of all, which nobody may get.
        doomed.start(ASSAY_INFERENCE_MODEL=str(folders[0]))
        seen: list[GenerateResponse] = []
        while (await client.weight_status()).replicas[doomed.url].policy != status.policy:
            asked = [
                asyncio.create_task(
                    client.generate(GenerateRequest(token_ids=(n + 1,), sampling=SAMPLING))
                )
                for n in range(8)
            ]
            seen += await asyncio.gather(*asked)
        assert versions(seen) == {2}
        async with InferenceClient(doomed.url, retry=NO_RETRY) as back:
            assert (await back.weight_status()).policy == status.policy


@pytest.mark.slow
async def test_the_routers_answers_are_those_of_its_replicas(
    client: InferenceClient, replica_urls: list[str], folders: list[Path]
) -> None:
    await publish(client, folders[0], 1)
    request = GenerateRequest(prompt="Write solve", sampling=SAMPLING)
    async with InferenceClient(replica_urls[0], retry=NO_RETRY) as replica:
        direct = await replica.generate(request)
    assert await client.generate(request) == direct
    texts = {0: "", 1: ""}

    def add(index: int, text: str) -> None:
        texts[index] += text

    assert await client.generate_stream(request, add) == direct
    assert list(texts.values()) == [completion.text for completion in direct.completions]


@pytest.mark.slow
async def test_the_openai_routes_work_through_a_router(
    serve: Serve, replica_urls: list[str], folders: list[Path]
) -> None:
    url = serve(create_app(router_settings(*replica_urls)))
    async with InferenceClient(url, retry=NO_RETRY) as client:
        await publish(client, folders[0], 1)
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as other:
        arguments = {"model": "policy", "prompt": "x", "max_tokens": 12, "seed": 5}
        whole = await other.completions.create(**arguments)  # type: ignore[call-overload]
        stream = await other.completions.create(**arguments, stream=True)  # type: ignore[call-overload]
        streamed = "".join([chunk.choices[0].text async for chunk in stream])
        assert streamed == whole.choices[0].text
        with pytest.raises(openai.UnprocessableEntityError, match="context of 128"):
            await other.completions.create(model="policy", prompt="x", max_tokens=500)


async def drawn(router: str) -> dict[str, float]:
    """Sequences by replica, from the router's metrics."""
    async with aiohttp.ClientSession() as http, http.get(f"{router}/metrics") as response:
        text = await response.text()
    found = re.findall(r'replica_sequences_total\{replica="([^"]+)"\} (\S+)', text)
    return {url: float(number) for url, number in found}


@pytest.mark.slow
async def test_one_prompts_requests_stay_on_one_replica(
    serve: Serve, replica_urls: list[str], folders: list[Path]
) -> None:
    router = serve(create_app(router_settings(*replica_urls)))
    async with InferenceClient(router, retry=NO_RETRY) as client:
        await publish(client, folders[0], 1)
        owners = set()
        for prompt in range(6):
            before = await drawn(router)
            request = GenerateRequest(token_ids=(prompt + 1, 7), sampling=SAMPLING)
            await asyncio.gather(*(client.generate(request) for _ in range(4)))
            after = await drawn(router)
            (owner,) = (url for url in after if after[url] > before.get(url, 0.0))
            owners.add(owner)
        assert len(owners) > 1


@pytest.mark.slow
def test_what_several_engines_cannot_do_is_told_with_its_reason(
    serve: Serve, replica_urls: list[str], tmp_path: Path
) -> None:
    """A trainer told to send weights directly, or to let sequences in flight continue."""
    settings = ServiceSettings(inference_url=serve(create_app(router_settings(*replica_urls[:2]))))
    told: list[tuple[int, str]] = []

    def connect() -> InferenceClient:
        return InferenceClient.from_settings(settings, retry=NO_RETRY)

    publisher = WeightPublisher(
        tmp_path,
        connect,
        [1, 2, 3],
        direct=DirectTransfer(settings, connect),
        on_fallback=lambda version, reason: told.append((version, reason)),
    )
    policy = create_policy(TINY, TEXTS, seed=0)
    publisher.publish(*policy)
    assert told == [], "the first version starts engines, and goes by a folder everywhere"
    publisher.publish(*policy)
    reason = "inference is 2 engines behind one address: they take folders"
    assert told == [(2, reason)]
    with pytest.raises(InvalidInput, match="continue does not.*grpo.sync"):
        publisher.publish(*policy, SyncMode.CONTINUE)


@pytest.mark.slow
def test_a_restarted_router_takes_versions_above_those_of_its_replicas(
    serve: Serve, replica_urls: list[str], folders: list[Path], tmp_path: Path
) -> None:
    """The trainer and an evaluation number by the replicas' versions: the router has none."""

    def connect(settings: ServiceSettings) -> InferenceClient:
        return InferenceClient.from_settings(settings, retry=NO_RETRY)

    async def restart(version: int) -> ServiceSettings:
        """Return the settings of a new router, which knows what its replicas serve."""
        url = serve(create_app(router_settings(*replica_urls[:2])))
        settings = ServiceSettings(inference_url=url)
        async with connect(settings) as client:
            status = await until(client, lambda status: status.newest_version == version)
        assert status.policy is None
        return settings

    async def announce(settings: ServiceSettings) -> None:
        async with connect(settings) as client:
            await publish(client, folders[0], 50)

    asyncio.run(announce(asyncio.run(restart(0))))
    settings = asyncio.run(restart(50))
    publisher = WeightPublisher(tmp_path, lambda: connect(settings), [1, 2, 3])
    status = publisher.publish(*create_policy(TINY, TEXTS, seed=0))
    assert status.policy is not None
    assert status.policy.version == 51
    assert {one.policy for one in status.replicas.values()} == {status.policy}

    settings = asyncio.run(restart(51))
    published = asyncio.run(publish_folder(folders[1], checkpoint.digest(folders[1]), settings))
    assert published.version == 52


async def test_a_version_that_no_replica_takes_is_refused_and_the_old_one_serves(
    client: InferenceClient, folders: list[Path], tmp_path: Path
) -> None:
    await publish(client, folders[0], 1)
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in folders[1].iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"hidden_size": 64}))
    with pytest.raises(WeightsRefused):
        await publish(client, broken, 2)
    answer = await client.generate(GenerateRequest(prompt="x", sampling=SAMPLING))
    assert versions([answer]) == {1}


async def test_a_name_stands_for_all_its_addresses(
    serve: Serve, replica_urls: list[str], folders: list[Path]
) -> None:
    port = replica_urls[0].rpartition(":")[2]
    router = serve(create_app(router_settings(f"dns+http://localhost:{port}")))
    async with InferenceClient(router, retry=NO_RETRY) as client:
        status = await publish(client, folders[0], 1)
        assert replica_urls[0] in status.replicas


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        ("", "'' is not an address"),
        ("http://a", "'http://a' is not an address"),
        ("ftp://a:1", "not an address"),
        ("http://a:1,http://a:1/", "twice"),
    ],
)
def test_addresses_that_are_none_stop_the_start(urls: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"ASSAY_INFERENCE_REPLICAS: .*{message}"):
        create_app(router_settings(urls))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inference_processes": 2}, "PROCESSES: only vllm"),
        (
            {"inference_processes": 2, "inference_engine": "vllm", "inference_devices": "0"},
            "DEVICES: there are 1 entries for 2",
        ),
    ],
)
def test_processes_that_cannot_be_stop_the_start(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cpu_settings(**values).check_processes()
