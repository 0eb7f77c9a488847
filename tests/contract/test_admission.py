"""The queue before the engine over HTTP: headers, every route of generation, pause and drain."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import openai
import pytest

from assay_inference.api.app import create_app
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import NotReady, Overloaded
from assay_shared.telemetry.context import WorkPurpose, purpose_scope
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import GenerateRequest, SamplingParams
from tests.conftest import Serve
from tests.support.policies import make_policy_folder

SHORT = SamplingParams(max_tokens=4, seed=1)
#: Keeps a tiny model busy for a while.
LONG = SamplingParams(max_tokens=100, n=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    quiet_transformers()
    folder = tmp_path_factory.mktemp("policies") / "v0"
    make_policy_folder(folder)
    return folder


@pytest.fixture
def url(serve: Serve, folder: Path) -> str:
    values = {
        "inference_device": "cpu",
        "inference_model": folder,
        "inference_max_sequences": 16,
        "inference_ahead_share": 0,
        "inference_max_waiting": 32,
    }
    return serve(create_app(InferenceSettings.model_validate(values)))


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


@pytest.fixture
async def http(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    limits = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(url, timeout=limits) as session:
        yield session


async def post(
    http: aiohttp.ClientSession, path: str, body: object = None, **headers: str
) -> tuple[int, dict[str, object]]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with http.post(path, json=body, headers=names) as response:
        return response.status, await response.json()


async def metric(http: aiohttp.ClientSession, line: str) -> float:
    async with http.get("/metrics") as response:
        text = await response.text()
    return float(next((x.split()[-1] for x in text.splitlines() if x.startswith(line)), "0"))


async def until_waiting(http: aiohttp.ClientSession, number: int) -> None:
    async with asyncio.timeout(30):
        while True:
            async with http.get("/v1/admission") as response:
                if sum((await response.json())["num_waiting"].values()) == number:
                    return
            await asyncio.sleep(0.005)


def generate(
    client: InferenceClient, purpose: WorkPurpose, sampling: SamplingParams = SHORT
) -> asyncio.Task[str]:
    """Return a task; it ends with the name of its purpose."""

    async def ask() -> str:
        with purpose_scope(purpose):
            await client.generate(GenerateRequest(prompt="x", sampling=sampling))
        return purpose.priority or purpose.run

    return asyncio.create_task(ask())


async def test_evaluations_go_before_training_whatever_came_first(
    client: InferenceClient, http: aiohttp.ClientSession
) -> None:
    await post(http, "/v1/pause")
    done: list[str] = []
    whole = SHORT.model_copy(update={"n": 16})
    asked = []
    for number, name in enumerate(("training", "evaluation")):
        task = generate(client, WorkPurpose(name), whole)
        task.add_done_callback(lambda task: done.append(task.result()))
        asked.append(task)
        await until_waiting(http, 16 * (number + 1))
    await post(http, "/v1/resume")
    await asyncio.gather(*asked)
    assert done == ["evaluation", "training"]


@pytest.mark.slow
async def test_headers_are_checked_on_every_route_of_generation(
    http: aiohttp.ClientSession,
) -> None:
    bodies = {
        "/v1/generate": {"prompt": "x", "sampling": {"max_tokens": 4}},
        "/v1/completions": {"model": "policy", "prompt": "x"},
        "/v1/chat/completions": {
            "model": "policy",
            "messages": [{"role": "user", "content": "x"}],
        },
    }
    for path, body in bodies.items():
        status, answer = await post(http, path, body, x_assay_priority="urgent")
        assert (status, answer["error"]["param"]) == (422, "header.x-assay-priority")  # type: ignore[index]
        assert "'evaluation', 'interactive' or 'training'" in str(answer)
        status, answer = await post(http, path, body, x_assay_deadline_s="-1")
        assert (status, answer["error"]["param"]) == (422, "header.x-assay-deadline-s")  # type: ignore[index]
        status, _ = await post(http, path, body, x_assay_run="r", x_assay_priority="training")
        assert status == 200
    assert await metric(http, 'assay_inference_wait_seconds_count{priority="training"}') == 3


async def test_a_run_that_fills_the_queue_gives_way_to_another(
    client: InferenceClient, http: aiohttp.ClientSession
) -> None:
    await post(http, "/v1/pause")
    greedy = [generate(client, WorkPurpose("training", "greedy")) for _ in range(32)]
    await until_waiting(http, 32)
    with pytest.raises(Overloaded) as raised:
        await generate(client, WorkPurpose("training", "greedy"))
    assert raised.value.retry_after_s
    modest = generate(client, WorkPurpose("training", "modest"))
    ended, _ = await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED, timeout=30)
    with pytest.raises(Overloaded, match="others come first"):
        ended.pop().result()
    await post(http, "/v1/resume")
    answers = await asyncio.gather(modest, *greedy, return_exceptions=True)
    assert answers[0] == "training"
    assert sum(isinstance(answer, Overloaded) for answer in answers) == 1


async def test_a_deadline_that_passes_in_the_queue_is_a_typed_refusal(
    client: InferenceClient, http: aiohttp.ClientSession, url: str
) -> None:
    await post(http, "/v1/pause")
    with pytest.raises(Overloaded, match=r"could not start within 0.05 s"):
        await generate(client, WorkPurpose(deadline_s=0.05))
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as other:
        with pytest.raises(openai.RateLimitError, match="could not start"):
            await other.completions.create(
                model="policy",
                prompt="x",
                max_tokens=2,
                stream=True,
                extra_headers={"x-assay-deadline-s": "0.05"},
            )
    refused = 'assay_inference_refused_total{priority="interactive",reason="deadline"}'
    assert await metric(http, refused) == 2


async def test_a_client_that_goes_away_leaves_the_queue_and_the_batch(
    client: InferenceClient, http: aiohttp.ClientSession
) -> None:
    drawing = generate(client, WorkPurpose(), LONG)
    waits = generate(client, WorkPurpose(), LONG)
    await until_waiting(http, 16)
    waits.cancel()
    await until_waiting(http, 0)
    drawing.cancel()
    status, answer = await post(http, "/v1/drain", {"wait_s": 30})
    assert (status, answer["num_running"]) == (200, 0)


async def test_pause_and_drain_say_what_they_do(
    client: InferenceClient, http: aiohttp.ClientSession
) -> None:
    _, paused = await post(http, "/v1/pause", {"wait_s": 1})
    assert (paused["state"], paused["num_running"]) == ("paused", 0)
    waits = generate(client, WorkPurpose("training"))
    await until_waiting(http, 1)
    await client.ready()
    _, drained = await post(http, "/v1/drain", {"wait_s": 30})
    assert (drained["state"], drained["num_running"]) == ("draining", 0)
    assert await waits == "training"
    with pytest.raises(NotReady, match="draining"):
        await client.ready()
    async with http.post("/v1/generate", json={"prompt": "x", "sampling": {"max_tokens": 4}}) as no:
        assert no.status == 503
        assert int(no.headers["retry-after"]) > 0
    assert (await post(http, "/v1/pause"))[0] == 409
    assert (await post(http, "/v1/resume"))[1]["state"] == "open"
    await client.generate(GenerateRequest(prompt="x", sampling=SHORT))
    status, _ = await post(http, "/v1/drain", {"wait": 30})
    assert status == 422
