"""Inference over HTTP: our client, the openai client, and what both are told when it goes wrong."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest

from assay_inference.app import create_app
from assay_inference.settings import InferenceSettings
from assay_shared import checkpoint
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import Conflict, InvalidInput, NotFound, NotReady, WeightsRefused
from assay_shared.types import (
    GenerateRequest,
    Message,
    PolicyVersion,
    SamplingParams,
    WeightUpdate,
)
from tests.conftest import Serve
from tests.policies import make_policy_folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("policies")
    for seed in range(2):
        make_policy_folder(root / f"v{seed}", seed)
    return [root / "v0", root / "v1"]


def settings(**values: object) -> InferenceSettings:
    return InferenceSettings.model_validate({"inference_device": "cpu"} | values)


@pytest.fixture
def url(serve: Serve, folders: list[Path]) -> str:
    return serve(create_app(settings(inference_model=folders[0])))


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


@pytest.fixture
async def openai_client(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


SAMPLING = SamplingParams(n=2, max_tokens=8, seed=3)


async def test_ids_text_and_messages_are_three_ways_to_one_prompt(client: InferenceClient) -> None:
    text = "<|user|>x plus 1<|end|><|assistant|>"
    turn = Message(role="user", content="x plus 1")
    by_text = await client.generate(GenerateRequest(prompt=text, sampling=SAMPLING))
    by_turns = await client.generate(GenerateRequest(messages=(turn,), sampling=SAMPLING))
    ids = by_text.prompt_token_ids
    by_ids = await client.generate(GenerateRequest(token_ids=ids, sampling=SAMPLING))
    assert by_text == by_turns == by_ids
    assert len(by_text.completions) == 2


async def test_a_conversation_goes_on_from_the_ids_that_were_sampled(
    client: InferenceClient,
) -> None:
    turn = Message(role="user", content="x plus 1")
    first = await client.generate(GenerateRequest(messages=(turn,), sampling=SAMPLING))
    sent = (*first.prompt_token_ids, *first.completions[0].token_ids)
    further = GenerateRequest(token_ids=sent, then=(turn,), sampling=SAMPLING)
    second = await client.generate(further)
    assert second.prompt_token_ids[: len(sent)] == sent
    assert second.prompt_token_ids[-3:] == first.prompt_token_ids[-3:], "ready for an answer"
    with pytest.raises(ValueError, match="then goes with token_ids"):
        GenerateRequest(messages=(turn,), then=(turn,))


async def test_every_completion_names_the_weights_that_made_it(
    client: InferenceClient, folders: list[Path]
) -> None:
    request = GenerateRequest(prompt="x", sampling=SAMPLING)
    expected = PolicyVersion(version=0, digest=checkpoint.digest(folders[0]))
    assert (await client.weight_status()).policy == expected
    assert {c.policy for c in (await client.generate(request)).completions} == {expected}
    update = PolicyVersion(version=5, digest=checkpoint.digest(folders[1]))
    status = await client.update_weights(WeightUpdate(path=str(folders[1]), policy=update))
    assert status.policy == update
    assert {c.policy for c in (await client.generate(request)).completions} == {update}


async def test_refusals_reach_the_trainer_as_what_they_are(
    client: InferenceClient, folders: list[Path]
) -> None:
    wrong = WeightUpdate(path=str(folders[1]), policy=PolicyVersion(version=1, digest="wrong"))
    with pytest.raises(WeightsRefused, match="policy.digest"):
        await client.update_weights(wrong)
    back = WeightUpdate(path=str(folders[0]), policy=PolicyVersion(version=0, digest="other"))
    with pytest.raises(Conflict, match="announce 1 or above"):
        await client.update_weights(back)
    long = GenerateRequest(prompt="x", sampling=SamplingParams(max_tokens=500))
    with pytest.raises(InvalidInput, match="sampling.max_tokens: .*context of 128"):
        await client.generate(long)


async def test_without_weights_it_is_alive_and_not_ready(serve: Serve) -> None:
    async with InferenceClient(serve(create_app(settings())), retry=NO_RETRY) as client:
        assert (await client.health())["status"] == "ok"
        assert (await client.weight_status()).policy is None
        with pytest.raises(NotReady, match="no weights are loaded yet"):
            await client.ready()
        with pytest.raises(NotReady):
            await client.generate(GenerateRequest(prompt="x", sampling=SAMPLING))


def test_a_missing_model_folder_stops_the_start() -> None:
    with pytest.raises(NotFound, match="there is no model folder /nowhere"):
        create_app(settings(inference_model=Path("/nowhere")))


# The openai client


async def test_models_are_listed(openai_client: openai.AsyncOpenAI) -> None:
    (model,) = (await openai_client.models.list()).data
    assert model.id == "policy"
    assert model.model_extra is not None
    assert model.model_extra["policy"]["version"] == 0


async def test_completions(openai_client: openai.AsyncOpenAI) -> None:
    answer = await openai_client.completions.create(
        model="policy", prompt=["x", "y plus"], n=2, max_tokens=6, seed=1, logprobs=1
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert all(choice.finish_reason in ("stop", "length") for choice in answer.choices)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs is not None
    assert all(value <= 0 for value in logprobs.token_logprobs)
    assert answer.system_fingerprint is not None
    assert answer.system_fingerprint.startswith("v0-")
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


async def test_token_ids_are_taken_as_they_are(
    openai_client: openai.AsyncOpenAI, client: InferenceClient
) -> None:
    request = GenerateRequest(prompt="x plus", sampling=SAMPLING)
    ids = (await client.generate(request)).prompt_token_ids
    by_ids = await openai_client.completions.create(
        model="policy", prompt=list(ids), max_tokens=6, temperature=0
    )
    by_text = await openai_client.completions.create(
        model="policy", prompt="x plus", max_tokens=6, temperature=0
    )
    assert by_ids.choices[0].text == by_text.choices[0].text


async def test_chat_and_its_stream_say_the_same(openai_client: openai.AsyncOpenAI) -> None:
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [
        {"role": "user", "content": "x plus 1"}
    ]
    whole = await openai_client.chat.completions.create(
        model="policy", messages=messages, max_tokens=12, seed=5, n=2, logprobs=True
    )
    stream = await openai_client.chat.completions.create(
        model="policy", messages=messages, max_tokens=12, seed=5, n=2, stream=True
    )
    texts = {0: "", 1: ""}
    ends = {}
    async for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            if choice.finish_reason:
                ends[choice.index] = (choice.finish_reason, chunk.system_fingerprint)
    assert [choice.message.content for choice in whole.choices] == [texts[0], texts[1]]
    assert ends == {
        choice.index: (choice.finish_reason, whole.system_fingerprint) for choice in whole.choices
    }
    assert whole.choices[0].logprobs is not None
    assert whole.choices[0].logprobs.content


async def test_a_completion_streams(openai_client: openai.AsyncOpenAI) -> None:
    arguments = {"model": "policy", "prompt": "x", "max_tokens": 12, "seed": 5}
    whole = await openai_client.completions.create(**arguments)  # type: ignore[call-overload]
    stream = await openai_client.completions.create(**arguments, stream=True)  # type: ignore[call-overload]
    assert "".join([chunk.choices[0].text async for chunk in stream]) == whole.choices[0].text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "gpt-9"}, "the model here is 'policy', not 'gpt-9'"),
        ({"prompt": ""}, "none empty"),
        ({"max_tokens": 5000}, "context of 128"),
        ({"max_tokens": 5000, "stream": True}, "context of 128"),
        ({"presence_penalty": 1.0}, "Input should be 0"),
        ({"echo": True}, "Input should be False"),
        ({"extra_body": {"min_p": 0.1}}, "Extra inputs are not permitted"),
        ({"temperature": 3.0}, "less than or equal to 2"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_and_never_ignored(
    openai_client: openai.AsyncOpenAI, changes: dict[str, object], message: str
) -> None:
    arguments: dict[str, object] = {"model": "policy", "prompt": "x", "max_tokens": 4} | changes
    with pytest.raises(openai.APIStatusError, match=message) as raised:
        await openai_client.completions.create(**arguments)  # type: ignore[call-overload]
    assert raised.value.status_code in (404, 422)


async def test_a_client_that_goes_away_stops_the_drawing(
    openai_client: openai.AsyncOpenAI, client: InferenceClient
) -> None:
    stream = await openai_client.completions.create(
        model="policy", prompt="x", max_tokens=100, n=16, stream=True
    )
    async for _ in stream:
        break
    await stream.close()
    await asyncio.sleep(0.1)
    request = GenerateRequest(prompt="x", sampling=SAMPLING)
    assert len((await client.generate(request)).completions) == 2
