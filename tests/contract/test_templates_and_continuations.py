"""Arguments of the chat template, and log-probabilities of a text after a prompt, over HTTP."""

from pathlib import Path

import pytest

from assay_inference.api.app import create_app
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient
from assay_shared.errors import InvalidInput
from assay_shared.types import (
    GenerateRequest,
    LogprobsRequest,
    Message,
    PromptLogprobs,
    SamplingParams,
)
from tests.conftest import Serve
from tests.support.policies import make_policy_folder

CHAT = (Message(role="user", content="Write solve(x)."),)
ONE = SamplingParams(max_tokens=1, temperature=0.0)
#: Shows whether the argument reached the template.
TEMPLATE = (
    "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    "{% if thinking %}think{% else %}x{% endif %}"
)


@pytest.fixture
def url(serve: Serve, tmp_path: Path) -> str:
    make_policy_folder(tmp_path / "m")
    (tmp_path / "m" / "chat_template.jinja").write_text(TEMPLATE)
    return serve(create_app(InferenceSettings(inference_model=tmp_path / "m")))


async def test_a_templates_argument_reaches_it_and_an_unknown_one_is_refused(url: str) -> None:
    async with InferenceClient(url) as client:
        await client.ready()
        plain, thinking = [
            (
                await client.generate(
                    GenerateRequest(messages=CHAT, template=template, sampling=ONE)
                )
            ).prompt_token_ids
            for template in ({}, {"thinking": True})
        ]
        assert plain != thinking
        with pytest.raises(InvalidInput, match="takes no 'mode'; it takes thinking"):
            await client.generate(GenerateRequest(messages=CHAT, template={"mode": 1}))
        with pytest.raises(InvalidInput, match="takes no 'mode'"):
            await client.generate(
                GenerateRequest(token_ids=plain, then=CHAT, template={"mode": 1}, sampling=ONE)
            )


async def test_a_continuation_is_read_after_a_prompt_and_after_messages(url: str) -> None:
    async def read(request: LogprobsRequest) -> PromptLogprobs:
        async with InferenceClient(url) as client:
            await client.ready()
            return await client.prompt_logprobs(request)

    found = await read(LogprobsRequest(prompt="def solve(x):\n", continuation="    return x"))
    by_ids = await read(LogprobsRequest(token_ids=found.token_ids))
    alone = await read(LogprobsRequest(prompt="def solve(x):\n"))

    assert found.continues_at == len(alone.token_ids)
    assert found.token_ids[: found.continues_at] == alone.token_ids
    assert found.logprobs[1:] == pytest.approx(by_ids.logprobs[1:], abs=1e-5)
    assert by_ids.continues_at is None
    chat = await read(
        LogprobsRequest(messages=CHAT, template={"thinking": True}, continuation=" A")
    )
    assert chat.continues_at is not None
    assert 0 < chat.continues_at < len(chat.token_ids)


@pytest.mark.parametrize(
    "values",
    [
        {"prompt": "a", "token_ids": (1,)},
        {"token_ids": (1,), "continuation": "b"},
        {"prompt": "a", "template": {"thinking": True}},
        {},
    ],
)
def test_what_does_not_go_together_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"give exactly one|goes with"):
        LogprobsRequest.model_validate(values)
