"""Inference over HTTP, by every engine of this host: our client and the openai client."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import openai
import pytest
import torch

from assay_inference.api.app import create_app
from assay_inference.engines.transformers.model import LoadedModel, open_model
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import Conflict, InvalidInput, NotFound, NotReady, WeightsRefused
from assay_shared.types import (
    FinishReason,
    GenerateRequest,
    LogprobProbe,
    Message,
    PolicyVersion,
    SamplingParams,
)
from assay_shared.weights import checkpoint
from tests.conftest import Serve
from tests.support.policies import SERVABLE, make_policy_folders, update_of
from tests.support.sglang.interpreter import sglang_settings
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_settings

pytestmark = pytest.mark.timeout(START_TIMEOUT_S + 120)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_policy_folders(
        tmp_path_factory.mktemp("policies"), 2, sharpness=3.0, config=SERVABLE
    )


Settings = Callable[..., InferenceSettings]


def transformers_settings(**values: object) -> InferenceSettings:
    return InferenceSettings.model_validate({"inference_device": "cpu"} | values)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(transformers_settings, id="transformers"),
        pytest.param(sglang_settings, id="sglang", marks=pytest.mark.slow),
        pytest.param(vllm_settings, id="vllm", marks=[NEEDS_VLLM, pytest.mark.slow]),
    ],
)
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """Return each engine of this host; SGLang's server is a double (tests/engines/sglang)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield request.param


@pytest.fixture(scope="module")
def url(serve_for_all: Serve, settings: Settings, folders: list[Path]) -> str:
    return serve_for_all(create_app(settings(inference_model=folders[0])))


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


@pytest.fixture
async def openai_client(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


SAMPLING = SamplingParams(n=2, max_tokens=8, seed=3)


@pytest.mark.slow
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
    served = (await client.weight_status()).policy
    assert served == PolicyVersion(version=0, digest=checkpoint.digest(folders[0]))
    assert {c.policy for c in (await client.generate(request)).completions} == {served}
    update = await publish(client, folders[1])
    assert {c.policy for c in (await client.generate(request)).completions} == {update}
    assert (await client.weight_status()).policy == update


async def test_tokens_and_logprobs_are_those_of_the_served_weights(
    client: InferenceClient, folders: list[Path]
) -> None:
    """After a first load and after further ones; the reference is a whole forward pass."""
    for folder in (folders[1], folders[0], folders[1]):
        policy = await publish(client, folder)
        reference = open_model(folder, policy, torch.device("cpu"))
        for temperature, top_p in ((0.0, 1.0), (1.0, 1.0), (0.6, 0.5)):
            sampling = SamplingParams(
                n=2, max_tokens=16, temperature=temperature, top_p=top_p, seed=1
            )
            drawn = await client.generate(GenerateRequest(prompt="Write solve", sampling=sampling))
            for completion in drawn.completions:
                logits_CV = _logits(reference, drawn.prompt_token_ids, completion.token_ids)
                logprobs_CV = (logits_CV / (temperature or 1.0)).log_softmax(dim=-1)
                ids_C1 = torch.tensor(completion.token_ids)[:, None]
                expected_C = logprobs_CV.gather(1, ids_C1)[:, 0]
                assert expected_C.tolist() == pytest.approx(completion.logprobs, abs=2e-3)
                if temperature == 0:
                    assert logits_CV.argmax(dim=-1).tolist() == list(completion.token_ids)


def _logits(
    model: LoadedModel, prompt: tuple[int, ...], completion: tuple[int, ...]
) -> torch.Tensor:
    """Return the ids (C, V) before each id of the completion."""
    with torch.inference_mode():
        logits_TV: torch.Tensor = (
            model.network(torch.tensor([[*prompt, *completion]])).logits[0].float()
        )
    return logits_TV[len(prompt) - 1 : -1]


async def test_a_seed_repeats_a_sample_and_neighbours_share_none(client: InferenceClient) -> None:
    async def draw(seed: int) -> list[tuple[int, ...]]:
        sampling = SamplingParams(n=3, max_tokens=32, temperature=2.0, seed=seed)
        answer = await client.generate(GenerateRequest(prompt="x", sampling=sampling))
        return [completion.token_ids for completion in answer.completions]

    alone = await draw(1)
    beside = await asyncio.gather(*(draw(seed) for seed in range(4)))
    assert beside[1] == alone
    assert len({ids for drawn in beside for ids in drawn}) == 12


async def test_a_stop_string_ends_a_sample_and_is_cut_off(client: InferenceClient) -> None:
    greedy = SamplingParams(max_tokens=24, temperature=0)
    whole = (await client.generate(GenerateRequest(prompt="x", sampling=greedy))).completions[0]
    stop = whole.text[3:6]
    stopped = greedy.model_copy(update={"stop": (stop,)})
    cut = (await client.generate(GenerateRequest(prompt="x", sampling=stopped))).completions[0]
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]
    assert cut.finish_reason is FinishReason.STOP


@pytest.mark.slow
async def test_new_weights_wait_for_the_sequences_in_hand(
    client: InferenceClient, folders: list[Path]
) -> None:
    long = GenerateRequest(prompt="x", sampling=SamplingParams(n=4, max_tokens=100))
    drawing = [asyncio.create_task(client.generate(long)) for _ in range(4)]
    await asyncio.sleep(0.02)
    for folder in folders:
        await publish(client, folder)
        drawing.append(asyncio.create_task(client.generate(long)))
    for answer in await asyncio.gather(*drawing):
        assert len({completion.policy for completion in answer.completions}) == 1


async def test_a_probe_that_does_not_hold_leaves_the_old_version(
    client: InferenceClient, folders: list[Path]
) -> None:
    before = await publish(client, folders[0])
    new = PolicyVersion(version=before.version + 1, digest=checkpoint.digest(folders[1]))
    probe = LogprobProbe(token_ids=(1, 2, 3), logprobs=(-50.0, -50.0), tolerance=0.01)
    with pytest.raises(WeightsRefused, match="log-probabilities differ by"):
        await client.update_weights(update_of(folders[1], new, probe))
    assert (await client.weight_status()).policy == before
    answer = await client.generate(GenerateRequest(prompt="x", sampling=SAMPLING))
    assert {completion.policy for completion in answer.completions} == {before}
    model = open_model(folders[1], new, torch.device("cpu"))
    ids = (9, 8, 7, 6)
    logprobs_CV = _logits(model, ids[:1], ids[1:]).log_softmax(dim=-1)
    true = tuple(float(logprobs_CV[at, token]) for at, token in enumerate(ids[1:]))
    probe = LogprobProbe(token_ids=ids, logprobs=true, tolerance=2e-3)
    update = update_of(folders[1], new, probe)
    status = await client.update_weights(update)
    assert status.probe_difference is not None
    assert status.probe_difference < 2e-3


async def test_all_that_the_engine_holds_is_compared_on_demand(
    client: InferenceClient, folders: list[Path]
) -> None:
    policy = await publish(client, folders[0])
    digest = await client.weight_digest()
    assert digest.policy == policy
    assert digest.differing == ()
    assert digest.num_whole > 0
    assert digest.num_whole + digest.num_sampled == digest.num_tensors


async def test_a_folder_that_is_cut_off_is_refused(
    client: InferenceClient, folders: list[Path], tmp_path: Path
) -> None:
    """The digest is of the files present: the trainer itself lost the rest."""
    before = await publish(client, folders[0])
    cut = tmp_path / "cut"
    shutil.copytree(folders[1], cut)
    (file,) = cut.glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-1000])
    policy = PolicyVersion(version=before.version + 1, digest=checkpoint.digest(cut))
    with pytest.raises(WeightsRefused, match="cut"):
        await client.update_weights(update_of(cut, policy))
    assert (await client.weight_status()).policy == before
    assert await client.generate(GenerateRequest(prompt="x", sampling=SAMPLING))


async def publish(client: InferenceClient, folder: Path) -> PolicyVersion:
    """Serve `folder` as the next version."""
    served = (await client.weight_status()).policy
    policy = PolicyVersion(
        version=served.version + 1 if served else 1, digest=checkpoint.digest(folder)
    )
    status = await client.update_weights(update_of(folder, policy))
    assert status.policy == policy
    return policy


async def test_refusals_reach_the_trainer_as_what_they_are(
    client: InferenceClient, folders: list[Path]
) -> None:
    version = (await publish(client, folders[0])).version
    policy = PolicyVersion(version=version + 1, digest="wrong")
    wrong = update_of(folders[1], policy)
    with pytest.raises(WeightsRefused, match="policy.digest"):
        await client.update_weights(wrong)
    back = update_of(folders[0], PolicyVersion(version=0, digest="other"))
    with pytest.raises(Conflict, match=f"announce {version + 1} or above"):
        await client.update_weights(back)
    long = GenerateRequest(prompt="x", sampling=SamplingParams(max_tokens=500))
    with pytest.raises(InvalidInput, match="sampling.max_tokens: .*context of 128"):
        await client.generate(long)


async def test_without_weights_it_is_alive_and_not_ready(serve: Serve, settings: Settings) -> None:
    async with InferenceClient(serve(create_app(settings())), retry=NO_RETRY) as client:
        assert (await client.health())["status"] == "ok"
        assert (await client.weight_status()).policy is None
        with pytest.raises(NotReady, match="no weights are loaded yet"):
            await client.ready()
        with pytest.raises(NotReady):
            await client.generate(GenerateRequest(prompt="x", sampling=SAMPLING))


def test_a_missing_model_folder_stops_the_start() -> None:
    with pytest.raises(NotFound, match="there is no model folder /nowhere"):
        create_app(transformers_settings(inference_model=Path("/nowhere")))


# The openai client


async def test_models_are_listed(
    openai_client: openai.AsyncOpenAI, client: InferenceClient
) -> None:
    (model,) = (await openai_client.models.list()).data
    assert model.id == "policy"
    assert model.model_extra is not None
    served = (await client.weight_status()).policy
    assert served is not None
    assert model.model_extra["policy"] == served.model_dump()


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
    assert re.match(r"v\d+-[0-9a-f]{12}$", answer.system_fingerprint)
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
