"""The effect of each option on an answer, by every engine of this host."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from itertools import compress
from pathlib import Path
from typing import Any

import openai
import pytest
import torch

from assay_inference.api.app import create_app
from assay_inference.engines.transformers.model import LoadedModel, open_model
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import InvalidInput
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import (
    Completion,
    GenerateRequest,
    LogprobsRequest,
    PolicyVersion,
    SamplingParams,
)
from assay_shared.weights import checkpoint
from assay_trainer.learner.network.model import create_policy
from assay_trainer.weights.folder import publish_policy
from tests.conftest import Serve
from tests.contract.test_inference import Settings, transformers_settings
from tests.support.policies import SERVABLE, TEXTS
from tests.support.sglang.interpreter import sglang_settings
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_settings

pytestmark = pytest.mark.timeout(START_TIMEOUT_S + 120)
TEMPLATE = (
    "{% if think is defined and not think %}<|system|>no thoughts<|end|>{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>"
    "{% if message.name %}{{ message.name }}: {% endif %}{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PROMPT = "x plus"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    quiet_transformers()
    folder = tmp_path_factory.mktemp("policies") / "v0"
    model, tokenizer = create_policy(SERVABLE.model_copy(update={"context_length": 512}), TEXTS, 0)
    tokenizer.chat_template = TEMPLATE
    publish_policy(model, tokenizer, folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> LoadedModel:
    policy = PolicyVersion(version=0, digest=checkpoint.digest(folder))
    return open_model(folder, policy, torch.device("cpu"))


ENGINES: dict[str, Settings] = {
    "transformers": transformers_settings,
    "sglang": sglang_settings,
    "vllm": vllm_settings,
}


@pytest.fixture(
    scope="module",
    params=[
        "transformers",
        pytest.param("sglang", marks=pytest.mark.slow),
        pytest.param("vllm", marks=[NEEDS_VLLM, pytest.mark.slow]),
    ],
)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def url(engine: str, serve_for_all: Serve, folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield serve_for_all(create_app(ENGINES[engine](inference_model=folder)))


@pytest.fixture
async def client(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def own(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


def logits_of(model: LoadedModel, prompt: tuple[int, ...], drawn: tuple[int, ...]) -> torch.Tensor:
    """Return the ids (C, V) before each sampled id."""
    with torch.inference_mode():
        all_TV: torch.Tensor = model.network(torch.tensor([[*prompt, *drawn]])).logits[0].float()
    return all_TV[len(prompt) - 1 : -1]


def ruled_logprobs(
    model: LoadedModel, prompt: tuple[int, ...], drawn: tuple[int, ...], sampling: SamplingParams
) -> torch.Tensor:
    """(C, V): by the documented formulas, in plain loops."""
    rows = []
    for at, row in enumerate(logits_of(model, prompt, drawn).clone()):
        before = drawn[:at]
        for token_id, bias in sampling.logit_bias.items():
            row[token_id] += bias
        for token_id in {*prompt, *before}:
            penalty = sampling.repetition_penalty
            row[token_id] = (
                row[token_id] / penalty if row[token_id] > 0 else row[token_id] * penalty
            )
        for token_id in set(before):
            row[token_id] -= sampling.frequency_penalty * before.count(token_id)
            row[token_id] -= sampling.presence_penalty
        rows.append((row / (sampling.temperature or 1.0)).log_softmax(-1))
    return torch.stack(rows)


async def draw(
    own: InferenceClient, **options: Any
) -> tuple[tuple[int, ...], tuple[Completion, ...], SamplingParams]:
    sampling = SamplingParams(**{"max_tokens": 24, "seed": 3, "ignore_eos": True} | options)
    answer = await own.generate(GenerateRequest(prompt=PROMPT, sampling=sampling))
    return answer.prompt_token_ids, answer.completions, sampling


#: What SGLang takes for something else than it is elsewhere, or not with seeds.
SGLANG_LACKS = ("repetition_penalty", "min_p")


async def is_refused(own: InferenceClient, engine: str, options: dict[str, Any]) -> bool:
    """Return True if the engine lacks an option; it then has to say so."""
    for name in SGLANG_LACKS:
        if engine == "sglang" and name in options:
            with pytest.raises(InvalidInput) as refused:
                await draw(own, **{name: options[name]})
            assert refused.value.field == f"sampling.{name}"
            return True
    return False


@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.5},
        {"presence_penalty": 1.2, "frequency_penalty": 0.6},
        {"presence_penalty": -2.0, "frequency_penalty": -0.5},
        {"logit_bias": {9: 4.0, 12: -100.0}},
        {"repetition_penalty": 1.2, "frequency_penalty": 0.5, "logit_bias": {9: 2.0}},
        {"min_p": 0.3, "top_k": 7, "top_p": 0.9},
    ],
    ids=str,
)
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.6])
@pytest.mark.slow
async def test_logprobs_are_those_of_the_penalised_softmax_at_the_temperature_before_filters(
    own: InferenceClient,
    engine: str,
    model: LoadedModel,
    options: dict[str, Any],
    temperature: float,
) -> None:
    if await is_refused(own, engine, options):
        return
    asked = options | {"temperature": temperature, "top_logprobs": 5, "n": 2}
    prompt, completions, sampling = await draw(own, **asked)
    for one in completions:
        expected_CV = ruled_logprobs(model, prompt, one.token_ids, sampling)
        ids_C1 = torch.tensor(one.token_ids)[:, None]
        expected_C = expected_CV.gather(1, ids_C1)[:, 0].tolist()
        assert one.logprobs == pytest.approx(expected_C, abs=2e-3)
        assert len(one.top_logprobs) == len(one.token_ids)
        for top, expected_V in zip(one.top_logprobs, expected_CV, strict=True):
            values = [value for _, value in top]
            assert values == pytest.approx(expected_V.topk(5).values.tolist(), abs=2e-3)
            assert values == pytest.approx([float(expected_V[i]) for i, _ in top], abs=2e-3)
        if temperature == 0:
            assert list(one.token_ids) == expected_CV.argmax(-1).tolist()


@pytest.mark.parametrize(
    ("options", "is_left"),
    [
        ({"top_k": 2}, lambda row: row >= row.topk(2).values[-1]),
        ({"min_p": 0.5}, lambda row: row.softmax(-1) >= 0.49 * row.softmax(-1).max()),
        ({"logit_bias": {9: 100.0}}, lambda row: torch.arange(len(row)) == 9),
    ],
    ids=["top_k", "min_p", "logit_bias"],
)
async def test_what_is_filtered_is_never_drawn(
    own: InferenceClient, engine: str, model: LoadedModel, options: dict[str, Any], is_left: Any
) -> None:
    if await is_refused(own, engine, options):
        return
    prompt, completions, _ = await draw(own, n=8, **options)
    assert len({one.token_ids for one in completions}) > 1 or "logit_bias" in options
    for one in completions:
        rows = logits_of(model, prompt, one.token_ids)
        for row, token_id in zip(rows, one.token_ids, strict=True):
            assert bool(is_left(row)[token_id])


async def test_ends_are_as_they_are_asked_for(own: InferenceClient, model: LoadedModel) -> None:
    (end,) = model.vocabulary.end_ids
    always = {end: 100.0}
    _, (one,), _ = await draw(own, ignore_eos=False, logit_bias=always)
    assert (one.token_ids, one.finish_reason) == ((end,), "stop")
    _, (one,), _ = await draw(own, ignore_eos=True, logit_bias=always, max_tokens=4)
    assert (one.token_ids, one.finish_reason) == ((end,) * 4, "length")
    _, (one,), _ = await draw(own, ignore_eos=False, logit_bias=always, min_tokens=5)
    assert len(one.token_ids) == 6
    assert one.token_ids.index(end) == 5
    asked: dict[str, Any] = {"stop_token_ids": [9], "logit_bias": {9: 100.0}, "min_tokens": 2}
    _, (one,), _ = await draw(own, **asked, ignore_eos=False)
    assert len(one.token_ids) == 3
    assert (one.token_ids[-1], one.finish_reason) == (9, "stop")


async def test_a_stop_string_counts_after_the_least_tokens(
    own: InferenceClient, engine: str, model: LoadedModel
) -> None:
    text = model.vocabulary.decode([9])
    asked: dict[str, Any] = {"logit_bias": {9: 100.0}, "stop": (text,)}
    _, (one,), _ = await draw(own, **asked)
    assert len(one.token_ids) == 1
    if engine == "sglang":
        with pytest.raises(InvalidInput, match="before min_tokens"):
            await draw(own, **asked, min_tokens=4)
        return
    _, (one,), _ = await draw(own, **asked, min_tokens=4)
    assert len(one.token_ids) == 5
    assert one.text == text * 4


async def test_prompt_logprobs_are_those_of_a_whole_forward_pass(
    own: InferenceClient, model: LoadedModel
) -> None:
    ids = tuple(model.vocabulary.encode("x plus 1\n" * 30))
    assert len(ids) > 130, "several chunks"
    read = await own.prompt_logprobs(LogprobsRequest(token_ids=ids, top_logprobs=3))
    expected_TV = logits_of(model, ids[:1], ids[1:]).log_softmax(-1)
    expected_T = expected_TV.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
    assert (read.token_ids, read.logprobs[0], read.top_logprobs[0]) == (ids, None, ())
    assert read.logprobs[1:] == pytest.approx(expected_T, abs=2e-3)
    for top, expected_V in zip(read.top_logprobs[1:], expected_TV, strict=True):
        assert [v for _, v in top] == pytest.approx(expected_V.topk(3).values.tolist(), abs=2e-3)
    for bad in ((), (-1,), (10**6,), ids * 9):
        with pytest.raises((InvalidInput, ValueError)):
            await own.prompt_logprobs(LogprobsRequest(token_ids=bad))


async def test_echo_gives_the_prompt_its_text_its_logprobs_and_its_places(
    client: openai.AsyncOpenAI, own: InferenceClient, model: LoadedModel
) -> None:
    text = "x plus é \N{GRINNING FACE}"
    asked: dict[str, Any] = {"model": "policy", "prompt": text, "echo": True, "logprobs": 2}
    (choice,) = (await client.completions.create(**asked, max_tokens=4, temperature=0)).choices
    (alone,) = (await client.completions.create(**asked, max_tokens=0)).choices
    assert choice.text.startswith(text)
    assert alone.text == text
    logprobs, before = choice.logprobs, alone.logprobs
    assert logprobs is not None
    assert before is not None
    ids = tuple(model.vocabulary.encode(text))
    read = await own.prompt_logprobs(LogprobsRequest(token_ids=ids))
    assert before.token_logprobs == pytest.approx(read.logprobs, abs=1e-4)
    assert (logprobs.token_logprobs or [])[: len(ids)] == pytest.approx(read.logprobs, abs=1e-4)
    tokens, offsets = before.tokens or [], before.text_offset or []
    assert any(token.startswith("bytes:\\x") for token in tokens), "parts of a character"
    for token, offset in zip(tokens, offsets, strict=True):
        assert token.startswith("bytes:") or text[offset:].startswith(token)
    assert (before.top_logprobs or [])[0] is None
    for top, token in zip((before.top_logprobs or [])[1:], tokens[1:], strict=True):
        assert token in top
        assert 2 <= len(top) <= 3
    stream = await client.completions.create(**asked, max_tokens=4, temperature=0, stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == choice.text
    end = chunks[-1].choices[0].logprobs
    assert end is not None
    assert (end.tokens, end.text_offset) == (logprobs.tokens, logprobs.text_offset)


async def test_chats_tell_bytes_alternatives_and_the_end_by_its_name(
    client: openai.AsyncOpenAI, model: LoadedModel
) -> None:
    (end,) = model.vocabulary.end_ids
    name = model.vocabulary.tokenizer.convert_ids_to_tokens(end)
    asked: dict[str, Any] = {
        "model": "policy",
        "messages": [{"role": "user", "content": "x"}],
        "logprobs": True,
        "top_logprobs": 3,
        "logit_bias": {str(end): 100},
        "extra_body": {"min_tokens": 3, "return_token_ids": True},
    }
    (choice,) = (await client.chat.completions.create(**asked)).choices
    assert choice.logprobs is not None
    content = choice.logprobs.content or []
    assert len(content) == 4
    assert content[-1].token == name
    assert bytes(content[-1].bytes or []).decode() == name
    assert choice.model_extra is not None
    shown = [not model.vocabulary.is_special(one) for one in choice.model_extra["token_ids"]]
    said = b"".join(bytes(one.bytes or []) for one in compress(content, shown))
    # Decoders differ in how many replacement characters a broken sequence gets.
    texts = (said.decode(errors="replace"), choice.message.content or "")
    assert len({re.sub("\ufffd+", "\ufffd", text) for text in texts}) == 1
    assert [len(one.top_logprobs) for one in content] == [3] * 4
    assert content[-1].top_logprobs[0].token == name


async def test_prompt_logprobs_come_as_vllm_gives_them(client: openai.AsyncOpenAI) -> None:
    asked: dict[str, Any] = {"extra_body": {"prompt_logprobs": 2, "return_token_ids": True}}
    text = await client.completions.create(model="policy", prompt=PROMPT, max_tokens=2, **asked)
    chat = await client.chat.completions.create(
        model="policy", messages=[{"role": "user", "content": "x"}], max_tokens=2, **asked
    )
    for found in (text.choices[0].model_extra, chat.model_extra):
        assert found is not None
        first, *rest = found["prompt_logprobs"]
        assert first is None
        assert len(rest) + 1 == len(found["prompt_token_ids"])
        for entry, token_id in zip(rest, found["prompt_token_ids"][1:], strict=True):
            assert str(token_id) in entry
            assert {1, 2} <= {one["rank"] for one in entry.values()}


@pytest.mark.slow
async def test_a_chat_without_a_limit_may_fill_the_context(
    client: openai.AsyncOpenAI, model: LoadedModel
) -> None:
    (end,) = model.vocabulary.end_ids
    whole = await client.chat.completions.create(
        model="policy",
        messages=[{"role": "user", "content": "x"}],
        logit_bias={str(end): -100},
        extra_body={"ignore_eos": True},
    )
    assert whole.usage is not None
    assert whole.usage.total_tokens == 512
    assert whole.choices[0].finish_reason == "length"
    text = await client.completions.create(
        model="policy", prompt=PROMPT, extra_body={"ignore_eos": True}
    )
    assert text.usage is not None
    assert text.usage.completion_tokens == 16


async def sent_of(client: openai.AsyncOpenAI, **chat: Any) -> list[int]:
    """Return the ids sent for a chat."""
    extra = {"return_token_ids": True} | chat.pop("extra_body", {})
    answer = await client.chat.completions.create(
        model="policy", max_tokens=1, extra_body=extra, **chat
    )
    assert answer.model_extra is not None
    ids: list[int] = answer.model_extra["prompt_token_ids"]
    return ids


async def test_templates_are_told_what_the_caller_gives_them(
    client: openai.AsyncOpenAI, model: LoadedModel
) -> None:
    encode = model.vocabulary.encode
    messages: Any = [{"role": "user", "content": "x"}]
    plain = await sent_of(client, messages=messages)
    told = {"chat_template_kwargs": {"think": False}}
    without = await sent_of(client, messages=messages, extra_body=told)
    assert without == encode("<|system|>no thoughts<|end|>") + plain
    for name in ("enable_thinking", "tokenize", "messages", "add_generation_prompt", "self"):
        with pytest.raises(openai.UnprocessableEntityError, match="takes no") as refused:
            await sent_of(
                client, messages=messages, extra_body={"chat_template_kwargs": {name: False}}
            )
        assert refused.value.param == "chat_template_kwargs"
        assert name in str(refused.value)
    developer: Any = [{"role": "developer", "content": "y"}, *messages]
    system: Any = [{"role": "system", "content": "y"}, *messages]
    assert await sent_of(client, messages=developer) == await sent_of(client, messages=system)
    named: Any = [{"role": "user", "name": "Ann", "content": "x"}]
    assert await sent_of(client, messages=named) == encode("<|user|>Ann: x<|end|><|assistant|>")


async def test_the_model_is_found_by_its_name(client: openai.AsyncOpenAI) -> None:
    (listed,) = (await client.models.list()).data
    assert await client.models.retrieve("policy") == listed
    for other in ("gpt-9", "org/policy"):
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve(other)


#: A value of each option of the documents' table, with further options it needs.
EXAMPLES: dict[str, dict[str, Any]] = {
    "top_k": {"top_k": 5},
    "min_p": {"min_p": 0.1},
    "repetition_penalty": {"repetition_penalty": 1.1},
    "presence_penalty": {"presence_penalty": 0.5},
    "frequency_penalty": {"frequency_penalty": 0.5},
    "logit_bias": {"logit_bias": {"9": 1}},
    "stop_token_ids": {"stop_token_ids": [9]},
    "ignore_eos": {"ignore_eos": True},
    "min_tokens": {"min_tokens": 2},
    "logprobs": {"logprobs": 3},
    "prompt_logprobs": {"prompt_logprobs": 3},
    "echo": {"echo": True, "logprobs": 0},
    "response_format": {"response_format": {"type": "json_object"}},
    "structured_outputs": {"structured_outputs": {"choice": ["a", "b"]}},
    "chat_template_kwargs": {"chat_template_kwargs": {"think": False}},
}
_PAGE = Path(__file__).parents[2] / "docs" / "inference.md"


def documented() -> dict[str, dict[str, bool]]:
    """Return True, by option and engine, if the page says the engine has it."""
    section = _PAGE.read_text().partition("### What each engine has")[2].partition("\n#")[0]
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    found = {}
    for name, *cells in rows:
        assert all(re.match("(yes|no)\\b", cell) for cell in cells)
        engines = zip(head[1:], cells, strict=True)
        found[name.strip("`")] = {engine: cell.startswith("yes") for engine, cell in engines}
    return found


async def test_the_documents_say_which_options_an_engine_has(
    client: openai.AsyncOpenAI, engine: str
) -> None:
    table = documented()
    assert table.keys() == EXAMPLES.keys()
    for name, example in EXAMPLES.items():
        body: dict[str, Any] = {"model": "policy", "prompt": PROMPT, "max_tokens": 4} | example
        path = "/completions"
        if name == "chat_template_kwargs":
            body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
            path = "/chat/completions"
        if table[name][engine]:
            assert await client.post(path, body=body, cast_to=object), name
            continue
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await client.post(path, body=body, cast_to=object)
        assert refused.value.param == name


HOSTILE: list[tuple[str, Any]] = [
    ("deep", json.loads('{"items":' * 80 + "{}" + "}" * 80)),
    ("remote", {"$ref": "http://127.0.0.1:9/x"}),
    ("endless", {"$ref": "#"}),
    ("impossible", {"allOf": [{"type": "string"}, {"type": "number"}]}),
    ("wide", {"properties": {f"p{i}": {"type": "string"} for i in range(20_000)}}),
    ("large", {"enum": [f"{i:050d}" for i in range(50_000)]}),
    ("pattern", {"type": "string", "pattern": "^(((a{1,99}){1,99}){1,99}b?){1,99}$"}),
    ("many", {"allOf": [{"anyOf": [{"minLength": i + j} for j in range(9)]} for i in range(30)]}),
    ("lenient", {"type": "string", "not": {}, "x-guidance": {"lenient": True}}),
]


@pytest.mark.parametrize(("name", "schema"), HOSTILE, ids=[name for name, _ in HOSTILE])
@pytest.mark.slow
async def test_hostile_schemas_are_answered_or_refused_in_time(
    url: str, engine: str, name: str, schema: Any
) -> None:
    """By the caller's name of the field, too; a refusal harms nobody else."""
    if engine == "vllm":
        pytest.skip("vLLM compiles these itself")
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    async with openai.AsyncOpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20
    ) as client:
        chat: Any = {"model": "policy", "messages": [{"role": "user", "content": "x"}]}
        param: str | None = "response_format"
        try:
            await client.chat.completions.create(**chat, max_tokens=8, response_format=form)
        except openai.UnprocessableEntityError as error:
            param = error.param
        assert param == "response_format", name
        await client.chat.completions.create(**chat, max_tokens=2)
