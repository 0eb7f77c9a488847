"""The OpenAI-compatible routes through the openai client, by every engine of this host.

Every field of the client stands in a table: honoured, or refused by name.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import aiohttp
import openai
import pytest
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from assay_inference.api.app import create_app
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import InvalidInput
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import GenerateRequest, SamplingParams, Structure
from assay_trainer.config import NewPolicyConfig
from assay_trainer.learner.network.model import create_policy
from assay_trainer.weights.folder import publish_policy
from tests.conftest import Serve
from tests.contract.test_inference import Settings, transformers_settings
from tests.support.policies import SERVABLE, TEXTS
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_settings

pytestmark = pytest.mark.timeout(START_TIMEOUT_S + 120)
CALL = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'
#: Of the family that Qwen and Hermes use, as far as these tests go.
TEMPLATE = (
    "{% if tools %}<|system|>{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    " <tool_call></tool_call><|end|>{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}"
    "{% for call in message.tool_calls %}<tool_call>{{ call.function.name }}"
    "{{ call.function.arguments | tojson }}</tool_call>{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ADD: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
}
LABEL = {
    "type": "object",
    "properties": {"label": {"enum": ["good", "bad"]}},
    "required": ["label"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    quiet_transformers()
    folder = tmp_path_factory.mktemp("policies") / "v0"
    config: NewPolicyConfig = SERVABLE.model_copy(update={"context_length": 512})
    model, tokenizer = create_policy(config, TEXTS, 0)
    tokenizer.chat_template = TEMPLATE
    publish_policy(model, tokenizer, folder)
    return folder


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(transformers_settings, id="transformers"),
        pytest.param(vllm_settings, id="vllm", marks=[NEEDS_VLLM, pytest.mark.slow]),
    ],
)
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """Return each engine of this host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield request.param


@pytest.fixture(scope="module")
def url(serve_for_all: Serve, settings: Settings, folder: Path) -> str:
    return serve_for_all(create_app(settings(inference_model=folder)))


@pytest.fixture
async def client(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


TEXT: dict[str, Any] = {"model": "policy", "prompt": "x plus", "max_tokens": 4, "seed": 1}
CHAT: dict[str, Any] = {
    "model": "policy",
    "messages": [{"role": "user", "content": "x plus 1"}],
    "max_tokens": 4,
    "seed": 1,
}

#: Values that are honoured, or that cannot change an answer.
TEXT_TAKEN: dict[str, list[Any]] = {
    "model": ["policy"],
    "prompt": ["x", ["x", "y"], [5, 6], [[5], [6]]],
    "best_of": [1, None],
    "echo": [True, False, None],
    "frequency_penalty": [0, -2, 0.5, None],
    "logit_bias": [{}, {"5": -100, "6": 1.5}, None],
    "logprobs": [0, 1, 20, None],
    "max_tokens": [3, None],
    "n": [2, None],
    "presence_penalty": [0.0, 2],
    "seed": [7, None],
    "stop": ["a", ["a", "b"], None],
    "stream_options": [None],
    "suffix": [None],
    "temperature": [0, 2, None],
    "top_p": [0.5],
    "user": ["me"],
}
TEXT_REFUSED: dict[str, list[Any]] = {
    "model": ["gpt-9"],
    "prompt": ["", [], [1.5], [5, "x"], [[5], 6], [-1], [100000]],
    "best_of": [2],
    "echo": ["perhaps"],
    "frequency_penalty": [2.5],
    "logit_bias": [{"5": 101}, {"x": 1}, {"1_0": 1}, {"100000": 1}],
    "logprobs": [21],
    "max_tokens": [0, 5000],
    "n": [0],
    "presence_penalty": [-3],
    "stop": [[""], ["a"] * 9],
    "stream_options": [{"include_usage": True}],
    "suffix": ["x"],
    "temperature": [3],
    "top_p": [0],
}
CHAT_TAKEN: dict[str, list[Any]] = {
    "model": ["policy"],
    "messages": [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}],
        [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        [{"role": "developer", "content": "x"}, {"role": "user", "content": "x", "name": "me"}],
    ],
    "frequency_penalty": [0, 1],
    "logit_bias": [{}, {"5": -3}],
    "logprobs": [True, None],
    "max_completion_tokens": [4, None],
    "max_tokens": [3, None],
    "metadata": [{"a": "b"}],
    "modalities": [["text"]],
    "n": [2],
    "parallel_tool_calls": [True],
    "presence_penalty": [0, -1],
    "prompt_cache_key": ["k"],
    "prompt_cache_options": [{}],
    "prompt_cache_retention": ["in_memory"],
    "response_format": [{"type": "text"}, {"type": "json_object"}],
    "safety_identifier": ["me"],
    "seed": [7],
    "service_tier": ["auto"],
    "stop": ["a", ["a", "b"]],
    "store": [False],
    "stream_options": [None],
    "temperature": [0],
    "tool_choice": ["auto", "none"],
    "tools": [[ADD], []],
    "top_logprobs": [0],
    "top_p": [0.5],
    "user": ["me"],
}
CHAT_REFUSED: dict[str, list[Any]] = {
    "audio": [{"format": "mp3", "voice": "ash"}],
    "frequency_penalty": [2.5],
    "function_call": ["auto"],
    "functions": [[{"name": "f"}]],
    "logit_bias": [{"5": 101}],
    "messages": [
        [],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "nobody", "content": "x"}],
        [{"role": "user", "content": "x" * 3000}],
    ],
    "max_tokens": [5000],
    "modalities": [["audio"]],
    "moderation": [{"model": "m"}],
    "parallel_tool_calls": [False],
    "prediction": [{"type": "content", "content": "x"}],
    "presence_penalty": [2.5],
    "reasoning_effort": ["low"],
    "response_format": [
        {"type": "grammar"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"schema": {"type": "banana"}}},
    ],
    "service_tier": ["flex"],
    "store": [True],
    "stream_options": [{"include_usage": True}],
    "tool_choice": ["required", {"type": "function", "function": {"name": "add"}}],
    "tools": [[{"type": "custom", "custom": {"name": "f"}}]],
    "top_logprobs": [3],
    "verbosity": ["low"],
    "web_search_options": [{}],
}


#: Options that only vLLM has.
VLLM_REFUSED: list[tuple[str, Any]] = [
    ("min_p", 1.5),
    ("top_k", -2),
    ("repetition_penalty", 0),
    ("stop_token_ids", [100000]),
    ("stop_token_ids", ["x"]),
    ("min_tokens", 5),
    ("prompt_logprobs", 21),
    ("structured_outputs", {"regex": "(unclosed"}),
    ("structured_outputs", {}),
    ("use_beam_search", True),
    ("bad_words", ["x"]),
    ("chat_template", "x"),
]


def test_every_field_of_the_openai_client_is_decided_on() -> None:
    for parameters, taken, refused in (
        (completion_create_params.CompletionCreateParamsBase, TEXT_TAKEN, TEXT_REFUSED),
        (chat_create_params.CompletionCreateParamsBase, CHAT_TAKEN, CHAT_REFUSED),
    ):
        assert get_type_hints(parameters).keys() == taken.keys() | refused.keys()


@pytest.mark.slow
async def test_what_is_taken_is_answered(client: openai.AsyncOpenAI) -> None:
    for name, values in TEXT_TAKEN.items():
        for value in values:
            answer = await client.completions.create(**TEXT | {name: value})
            assert answer.choices, (name, value)
    for name, values in CHAT_TAKEN.items():
        for value in values:
            reply = await client.chat.completions.create(**CHAT | {name: value})
            assert reply.choices, (name, value)


async def test_what_cannot_be_honoured_is_refused_by_name(client: openai.AsyncOpenAI) -> None:
    cases = [
        (create, arguments | {"extra_body": {name: value}}, name)
        for create, arguments in (
            (client.completions.create, TEXT),
            (client.chat.completions.create, CHAT),
        )
        for name, value in VLLM_REFUSED
    ]
    for name, values in TEXT_REFUSED.items():
        cases += [(client.completions.create, TEXT | {name: value}, name) for value in values]
    for name, values in CHAT_REFUSED.items():
        cases += [(client.chat.completions.create, CHAT | {name: value}, name) for value in values]
    for create, arguments, name in cases:
        with pytest.raises(openai.APIStatusError) as raised:
            await create(**arguments)
        assert raised.value.status_code in (404, 422)
        assert (raised.value.param or "").partition(".")[0] == name, arguments


async def test_two_limits_that_differ_are_refused(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        await client.chat.completions.create(**CHAT, max_completion_tokens=5)
    assert refused.value.param == "max_tokens"


@pytest.mark.parametrize("option", [{"min_tokens": 2}, {"ignore_eos": True}])
@pytest.mark.parametrize(
    "form",
    [
        {"response_format": {"type": "json_object"}},
        {"structured_outputs": {"choice": ["yes", "no"]}},
        {"structured_outputs": {"regex": "[0-9]+"}},
    ],
)
async def test_a_form_and_an_end_of_ones_own_are_refused_by_both_names(
    client: openai.AsyncOpenAI, url: str, option: dict[str, Any], form: dict[str, Any]
) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match=next(iter(form))) as refused:
        await client.chat.completions.create(**CHAT | {"extra_body": option | form})
    assert refused.value.param == next(iter(option))
    structure = {"choice": ["yes", "no"]}
    sampling = option | {"structure": structure}
    async with aiohttp.ClientSession() as session:
        own = await session.post(f"{url}/v1/generate", json={"prompt": "x", "sampling": sampling})
        assert own.status == 422
        message = (await own.json())["error"]["message"]
    assert f"{next(iter(option))} does not go with structure" in message


async def test_a_stream_is_refused_as_what_it_is_before_it_begins(
    client: openai.AsyncOpenAI,
) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="context of 512"):
        await client.completions.create(**TEXT | {"max_tokens": 5000}, stream=True)


async def test_the_reply_can_carry_the_ids_that_were_sent(client: openai.AsyncOpenAI) -> None:
    """As vLLM does: a missing or an extra chat template is seen."""
    asked: dict[str, Any] = {"extra_body": {"return_token_ids": True}, "n": 2}
    text = await client.completions.create(**TEXT | {"prompt": [5, 6, 7]} | asked)
    for choice in text.choices:
        extra = choice.model_extra
        assert extra is not None
        assert extra["prompt_token_ids"] == [5, 6, 7]
        assert len(extra["token_ids"]) <= 4
    chat = await client.chat.completions.create(**CHAT | asked)
    shown = "<|user|>x plus 1<|end|><|assistant|>"
    raw = await client.completions.create(**TEXT | {"prompt": shown} | asked)
    assert chat.model_extra is not None
    assert raw.choices[0].model_extra is not None
    assert chat.model_extra["prompt_token_ids"] == raw.choices[0].model_extra["prompt_token_ids"]
    stream = await client.chat.completions.create(**CHAT | asked, stream=True)
    ends = [chunk async for chunk in stream if chunk.choices[0].finish_reason]
    for end, choice in zip(ends, chat.choices, strict=True):
        assert end.choices[0].model_extra is not None
        assert choice.model_extra is not None
        assert end.choices[0].model_extra["token_ids"] == choice.model_extra["token_ids"]
    assert "token_ids" not in str((await client.chat.completions.create(**CHAT)).model_dump())


async def test_a_stream_has_usage_and_logprobs_where_they_are_asked_for(
    client: openai.AsyncOpenAI,
) -> None:
    whole = await client.chat.completions.create(**CHAT, logprobs=True, n=2)
    stream = await client.chat.completions.create(
        **CHAT, logprobs=True, n=2, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = [chunk async for chunk in stream]
    assert (last.choices, last.usage) == ([], whole.usage)
    assert all(chunk.usage is None for chunk in chunks)
    ends = [chunk.choices[0] for chunk in chunks if chunk.choices[0].finish_reason]
    for end, choice in zip(ends, whole.choices, strict=True):
        assert end.logprobs is not None
        assert choice.logprobs is not None
        assert end.logprobs.content == choice.logprobs.content


# Tools


async def test_tools_calls_and_answers_go_through_the_template(client: openai.AsyncOpenAI) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}
    messages: list[Any] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "2"},
    ]
    asked: dict[str, Any] = {"extra_body": {"return_token_ids": True}}
    chat = await client.chat.completions.create(
        **CHAT | {"messages": messages, "tools": [ADD]} | asked
    )
    shown = (
        f"<|system|>{json.dumps(ADD, sort_keys=False)} <tool_call></tool_call><|end|>"
        '<|user|>x<|end|><|assistant|><tool_call>add{"x": 1}</tool_call><|end|>'
        "<|tool|>2<|end|><|assistant|>"
    )
    raw = await client.completions.create(**TEXT | {"prompt": shown} | asked)
    assert chat.model_extra is not None
    assert raw.choices[0].model_extra is not None
    assert chat.model_extra["prompt_token_ids"] == raw.choices[0].model_extra["prompt_token_ids"]


async def test_a_reply_that_calls_nothing_is_text_with_tools_and_without(
    client: openai.AsyncOpenAI,
) -> None:
    arguments = CHAT | {"tools": [ADD], "max_tokens": 24}
    whole = await client.chat.completions.create(**arguments)
    assert whole.choices[0].message.tool_calls is None
    stream = await client.chat.completions.create(**arguments, stream=True)
    texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(texts) == whole.choices[0].message.content


async def test_arguments_of_an_earlier_call_must_be_an_object(client: openai.AsyncOpenAI) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "x"}}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    with pytest.raises(
        openai.UnprocessableEntityError, match="arguments of add are not a JSON object"
    ):
        await client.chat.completions.create(**CHAT | {"messages": messages})


# Structured output


async def test_answers_are_held_to_a_form(client: openai.AsyncOpenAI) -> None:
    named = {"type": "json_schema", "json_schema": {"name": "label", "schema": LABEL}}
    arguments = CHAT | {"max_tokens": 200, "n": 4}
    held = await client.chat.completions.create(**arguments | {"response_format": named})
    ended = [choice for choice in held.choices if choice.finish_reason == "stop"]
    assert ended
    for choice in ended:
        assert json.loads(choice.message.content or "")["label"] in ("good", "bad")
    free = await client.chat.completions.create(
        **arguments | {"response_format": {"type": "json_object"}}
    )
    assert all((choice.message.content or "{").lstrip()[0] == "{" for choice in free.choices)
    cut = await client.chat.completions.create(
        **arguments | {"response_format": named, "max_tokens": 3}
    )
    assert {choice.finish_reason for choice in cut.choices} == {"length"}


async def test_generate_is_held_to_a_regex_and_says_the_logprobs_of_what_was_allowed(
    url: str,
) -> None:
    def request(**form: Any) -> GenerateRequest:
        sampling = SamplingParams(n=4, max_tokens=32, seed=1, structure=Structure(**form))
        return GenerateRequest(prompt="x", sampling=sampling)

    async with InferenceClient(url, retry=NO_RETRY) as client:
        for one in (await client.generate(request(regex="[0-9]{3}-[ab]"))).completions:
            assert re.fullmatch("[0-9]{3}-[ab]", one.text)
        for one in (await client.generate(request(regex="aaaa"))).completions:
            assert one.text == "aaaa"
            assert one.logprobs[-1] == pytest.approx(0.0, abs=1e-4), "nothing else was allowed"
        choice = ("yes", 'no "é"\n', "\N{GRINNING FACE}")
        drawn = (await client.generate(request(choice=choice))).completions
        assert {one.text for one in drawn} <= set(choice)
        with pytest.raises(InvalidInput, match="held to this form") as refused:
            await client.generate(request(regex="(unclosed"))
        assert refused.value.field == "sampling.structure"
        assert (await client.generate(request(regex="b"))).completions[0].text == "b"
