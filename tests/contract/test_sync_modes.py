"""Sequences in flight at the arrival of new weights, by every engine of this host.

The claimed version of a token is checked: a separate forward pass with its weights has to give
the same tokens (greedy) with the same log-probabilities.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import openai
import pytest
import torch

from assay_inference.api.app import create_app
from assay_inference.engines.transformers.model import LoadedModel, open_model
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.types import (
    Completion,
    GenerateRequest,
    GenerateResponse,
    PolicyVersion,
    SamplingParams,
    SyncMode,
    VersionSpan,
)
from assay_shared.weights import checkpoint
from tests.conftest import Serve
from tests.contract.test_inference import Settings, settings  # noqa: F401  # a fixture
from tests.support.policies import SERVABLE, make_policy_folders, update_of
from tests.support.sglang.interpreter import sglang_settings
from tests.support.vllm.interpreter import START_TIMEOUT_S

pytestmark = pytest.mark.timeout(START_TIMEOUT_S + 240)

NUM_TOKENS = 200
LONG = SERVABLE.model_copy(update={"context_length": 256})
GREEDY = SamplingParams(max_tokens=NUM_TOKENS, temperature=0)
SEEDED = SamplingParams(max_tokens=NUM_TOKENS, temperature=1.0, seed=4, n=3)
#: No answer ends early, so all are in flight when the weights come.
ENDLESS = ("x plus", "Write solve", "def")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_policy_folders(tmp_path_factory.mktemp("policies"), 2, sharpness=3.0, config=LONG)


@pytest.fixture(scope="module")
def url(serve_for_all: Serve, settings: Settings, folders: list[Path]) -> str:  # noqa: F811
    return serve_for_all(create_app(settings(inference_model=folders[0])))


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


@pytest.fixture(scope="module")
def references(folders: list[Path]) -> dict[str, LoadedModel]:
    """By digest."""
    found = {}
    for folder in folders:
        policy = PolicyVersion(version=0, digest=checkpoint.digest(folder))
        found[policy.digest] = open_model(folder, policy, torch.device("cpu"))
    return found


def explained(
    references: dict[str, LoadedModel],
    prompt: tuple[int, ...],
    completion: Completion,
    temperature: float,
) -> bool:
    """Return True if each token is the greedy token of its named version."""
    spans = completion.versions or (
        VersionSpan(policy=completion.policy, num_tokens=len(completion.token_ids)),
    )
    at = 0
    for span in spans:
        network = references[span.policy.digest].network
        ids_1T = torch.tensor([[*prompt, *completion.token_ids]])
        with torch.inference_mode():
            logits_CV = network(ids_1T).logits[0, len(prompt) - 1 : -1].float()
        ids_C = torch.tensor(completion.token_ids)
        logprobs_CV = (logits_CV / (temperature or 1.0)).log_softmax(dim=-1)
        logprobs_C = logprobs_CV.gather(1, ids_C[:, None])[:, 0]
        part = slice(at, at + span.num_tokens)
        expected = torch.tensor(completion.logprobs)
        if not torch.allclose(logprobs_C[part], expected[part], atol=5e-3):
            return False
        if temperature == 0 and not torch.equal(logits_CV.argmax(dim=-1)[part], ids_C[part]):
            return False
        at += span.num_tokens
    return at == len(completion.token_ids)


async def swap_while(
    url: str,
    client: InferenceClient,
    folders: list[Path],
    mode: SyncMode,
    requests: list[GenerateRequest],
) -> tuple[PolicyVersion, PolicyVersion, list[GenerateResponse], Awaitable[str]]:
    """Publish while `requests` and a stream, the last to get text, are being sampled."""
    before = (await client.weight_status()).policy
    assert before is not None
    answers = [asyncio.create_task(client.generate(request)) for request in requests]
    stream = Stream(url)
    await stream.begun()
    served = checkpoint.digest(folders[0])
    folder = folders[1 if before.digest == served else 0]
    after = PolicyVersion(version=before.version + 1, digest=checkpoint.digest(folder))
    status = await client.update_weights(update_of(folder, after, mode=mode))
    assert status.policy == after
    return before, after, await asyncio.gather(*answers), stream.rest


class Stream:
    """A streamed answer of the openai client."""

    def __init__(self, url: str) -> None:
        self._first = asyncio.Event()
        self.rest = asyncio.create_task(self._read(url))

    async def begun(self) -> None:
        while not self._first.is_set():
            assert not self.rest.done(), "it ended before its first text"
            await asyncio.sleep(0.005)

    async def _read(self, url: str) -> str:
        text = ""
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as client:
            chunks = await client.completions.create(
                model="policy", prompt="x", max_tokens=NUM_TOKENS, temperature=0, stream=True
            )
            async for chunk in chunks:
                text += chunk.choices[0].text
                if text:
                    self._first.set()
        return text


def skip_where_refused(settings: Settings, mode: SyncMode) -> None:  # noqa: F811
    if settings is sglang_settings and mode is not SyncMode.WAIT:
        pytest.skip("refused by name: tests/engines/sglang")


def requests_of(sampling: SamplingParams) -> list[GenerateRequest]:
    return [GenerateRequest(prompt=prompt, sampling=sampling) for prompt in ENDLESS]


def ids_of(answer: GenerateResponse) -> list[tuple[int, ...]]:
    return [completion.token_ids for completion in answer.completions]


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("mode", [SyncMode.WAIT, SyncMode.RESTART])
@pytest.mark.slow
async def test_no_answer_mixes_versions(
    url: str,
    client: InferenceClient,
    folders: list[Path],
    references: dict[str, LoadedModel],
    settings: Settings,  # noqa: F811
    mode: SyncMode,
    sampling: SamplingParams,
) -> None:
    skip_where_refused(settings, mode)
    requests = requests_of(sampling)
    before, after, answers, rest = await swap_while(url, client, folders, mode, requests)
    expected = before if mode is SyncMode.WAIT else after
    for answer in answers:
        for completion in answer.completions:
            assert completion.versions == ()
            prompt = answer.prompt_token_ids
            assert explained(references, prompt, completion, sampling.temperature)
        assert len({completion.policy for completion in answer.completions}) == 1
    assert expected in {answer.completions[0].policy for answer in answers}
    if mode is SyncMode.WAIT:
        assert await rest
    else:
        with pytest.raises(openai.APIError, match="new weights came while this was streamed"):
            await rest
    if sampling.seed is not None:
        again = await asyncio.gather(*(client.generate(request) for request in requests))
        pairs = [
            (drawn, redrawn)
            for drawn, redrawn in zip(answers, again, strict=True)
            if drawn.completions[0].policy == after
        ]
        assert pairs or mode is SyncMode.WAIT
        samples = [ids for pair in pairs for ids in zip(*map(ids_of, pair), strict=True)]
        # The rest of a batch changes the last digits of a probability. Of all the numbers that the
        # seed draws, one may lie so near to the border of two tokens that these digits decide.
        different = [ids for ids in samples if ids[0] != ids[1]]
        assert len(different) <= 1, "a seed says the same after a restart"


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.slow
async def test_what_goes_on_says_who_drew_each_token(
    url: str,
    client: InferenceClient,
    folders: list[Path],
    references: dict[str, LoadedModel],
    settings: Settings,  # noqa: F811
    sampling: SamplingParams,
) -> None:
    skip_where_refused(settings, SyncMode.CONTINUE)
    before, after, answers, rest = await swap_while(
        url, client, folders, SyncMode.CONTINUE, requests_of(sampling)
    )
    completions = [c for answer in answers for c in answer.completions]
    mixed = [completion for completion in completions if completion.versions]
    assert mixed, "some were in flight"
    for completion in mixed:
        assert [span.policy for span in completion.spans] == [before, after]
        assert completion.policy == after
        assert len(completion.token_ids) <= NUM_TOKENS
    for answer in answers:
        for completion in answer.completions:
            prompt = answer.prompt_token_ids
            assert explained(references, prompt, completion, sampling.temperature)
            wrong = completion.model_copy(update={"versions": (), "policy": before})
            if completion.versions:
                assert not explained(references, prompt, wrong, sampling.temperature)
    if sampling.n > 1:
        tails = {c.token_ids[c.versions[0].num_tokens :] for c in mixed}
        # A sharp model may bring two samples to the same end.
        assert len(tails) > len(mixed) / 2, "samples do not continue in the same way"
    assert await rest


async def test_a_refused_version_lets_what_is_in_hand_go_on(
    client: InferenceClient, folders: list[Path], references: dict[str, LoadedModel]
) -> None:
    before = (await client.weight_status()).policy
    assert before is not None
    answers = [asyncio.create_task(client.generate(request)) for request in requests_of(GREEDY)]
    await asyncio.sleep(0.1)
    policy = PolicyVersion(version=before.version + 1, digest="wrong")
    for mode in (SyncMode.RESTART, SyncMode.CONTINUE):
        with pytest.raises(Exception, match=r"policy\.digest"):
            await client.update_weights(update_of(folders[0], policy, mode=mode))
    for answer in await asyncio.gather(*answers):
        (completion,) = answer.completions
        assert [span.policy for span in completion.spans] == [before]
        assert explained(references, answer.prompt_token_ids, completion, 0)
