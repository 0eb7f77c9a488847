"""An OpenAI-compatible server, from its requests to its replies."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from assay_shared.clients import RetryBudget
from assay_shared.errors import AssayError, InvalidInput, Overloaded, Unreachable
from assay_shared.types import FinishReason, GenerateRequest, Message, SamplingParams
from assay_trainer.evaluate.answers.server import OpenAIServer, ServerGenerator
from assay_trainer.rollouts.worker import PartialResponse
from tests.conftest import Serve

RETRY = RetryBudget(attempts=3, total_s=5.0, first_wait_s=0.01)
SAMPLING = SamplingParams(n=2, max_tokens=9, temperature=0.5, top_p=0.9, stop=("#",), seed=7)
CHAT = GenerateRequest(messages=(Message(role="user", content="q"),), sampling=SAMPLING)
REPLY = {
    "choices": [{"message": {"content": "yes"}, "finish_reason": "length"}],
    "usage": {"completion_tokens": 3},
}


def reply(
    content: Any = "yes", finish_reason: str | None = "stop", **further: Any
) -> dict[str, Any]:
    message = {"content": content} | further.pop("message", {})
    return {
        "choices": [{"message": message, "finish_reason": finish_reason}],
        "usage": {"completion_tokens": 3},
    } | further


class Double:
    """A server that keeps requests, and replies as it is told."""

    def __init__(self, serve: Serve, reply: Callable[[int], tuple[int, Any]]) -> None:
        self.bodies: list[dict[str, Any]] = []
        app = FastAPI()

        @app.post("/v1/{path:path}")
        async def answer(path: str, body: dict[str, Any]) -> JSONResponse:
            self.bodies.append(body)
            status, content = reply(len(self.bodies))
            return JSONResponse(content, status)

        self.url = serve(app) + "/v1"


async def generated(double: Double, request: GenerateRequest, **template: Any) -> Any:
    async with OpenAIServer(double.url, retry=RETRY) as server:
        return await ServerGenerator(server, "m", template).generate(request)


async def test_every_setting_reaches_the_server_and_each_sample_has_its_seed(serve: Serve) -> None:
    double = Double(serve, lambda _: (200, REPLY))

    found = await generated(double, CHAT, enable_thinking=False)

    assert [one.text for one in found.completions] == ["yes", "yes"]
    assert [len(one.token_ids) for one in found.completions] == [3, 3]
    assert found.completions[0].finish_reason is FinishReason.LENGTH
    first, second = double.bodies
    assert first["chat_template_kwargs"] == {"enable_thinking": False}
    assert (first["top_p"], first["stop"], first["max_tokens"]) == (0.9, ["#"], 9)
    assert first["messages"] == [{"role": "user", "content": "q"}]
    assert first["seed"] != second["seed"]


async def test_a_refused_request_costs_its_sample_alone(serve: Serve) -> None:
    double = Double(serve, lambda number: (400, {}) if number == 2 else (200, REPLY))
    found = await generated(
        double, CHAT.model_copy(update={"sampling": SAMPLING.model_copy(update={"n": 4})})
    )
    ((lost, failure),) = found.lost.items()
    assert "400" in failure.message
    texts = [one.text for one in found.completions]
    assert texts.pop(lost) == ""
    assert texts == ["yes"] * 3
    assert len(double.bodies) == 4


async def test_samples_that_all_fail_have_their_own_reasons(serve: Serve) -> None:
    double = Double(serve, lambda number: (400, {"error": f"reason {number}"}))

    found = await generated(double, CHAT)

    assert len({one.message for one in found.lost.values()}) == 2
    assert sorted(found.lost) == [0, 1]


async def test_known_samples_are_not_asked_for_and_the_others_keep_their_seeds(
    serve: Serve,
) -> None:
    four = CHAT.model_copy(update={"sampling": SAMPLING.model_copy(update={"n": 4})})
    whole, rest = (Double(serve, lambda _: (200, REPLY)) for _ in range(2))
    await generated(whole, four)

    async with OpenAIServer(rest.url, retry=RETRY) as server:
        generator = ServerGenerator(server, "m", {}, known=(0, 1, 3))
        found = await generator.generate(four)
        sent = found.completions[2].token_ids
        further = GenerateRequest(token_ids=sent, then=CHAT.messages, sampling=SAMPLING)
        later = await generator.generate(further)

    assert isinstance(found, PartialResponse)
    assert sorted(found.lost) == [0, 1, 3]
    assert [one.text for one in found.completions] == ["", "", "yes", ""]
    assert [one.text for one in later.completions] == ["yes", "yes"], "not a first request"
    (seed, *_) = (body["seed"] for body in rest.bodies)
    assert seed == sorted(body["seed"] for body in whole.bodies)[2]
    assert len(rest.bodies) == 3


async def test_a_server_that_refuses_all_is_an_error(serve: Serve) -> None:
    with pytest.raises(InvalidInput):
        await generated(Double(serve, lambda _: (400, {})), CHAT)


async def test_an_episode_is_sent_as_messages(serve: Serve) -> None:
    double = Double(serve, lambda _: (200, REPLY))
    one = CHAT.model_copy(update={"sampling": SamplingParams(n=1)})
    async with OpenAIServer(double.url, retry=RETRY) as server:
        generator = ServerGenerator(server, "m", {})
        first = await generator.generate(one)
        sent = (*first.prompt_token_ids, *first.completions[0].token_ids)
        further = GenerateRequest(
            token_ids=sent, then=(Message(role="user", content="more"),), sampling=one.sampling
        )
        second = await generator.generate(further)

    assert second.prompt_token_ids == sent
    said = [(message["role"], message["content"]) for message in double.bodies[1]["messages"]]
    assert said == [("user", "q"), ("assistant", "yes"), ("user", "more")]


async def test_an_overloaded_server_is_asked_again(serve: Serve) -> None:
    one = CHAT.model_copy(update={"sampling": SamplingParams(n=1)})
    recovers = Double(serve, lambda number: (200, REPLY) if number == 3 else (429, {}))
    stays = Double(serve, lambda _: (429, {}))

    assert (await generated(recovers, one)).completions[0].text == "yes"
    with pytest.raises(Overloaded):
        await generated(stays, one)
    assert len(stays.bodies) == 3


async def test_a_fault_in_place_of_an_answer_is_asked_for_again(serve: Serve) -> None:
    one = CHAT.model_copy(update={"sampling": SamplingParams(n=1, max_tokens=9)})
    recovers = Double(
        serve, lambda number: (200, reply() if number == 3 else reply(finish_reason="error"))
    )

    assert (await generated(recovers, one)).completions[0].text == "yes"
    assert len(recovers.bodies) == 3


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "reasoning_content": "hm"}, ""),
        ({"content": None, "tool_calls": [{"id": "1"}]}, ""),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "text", "text": "ye"}, {"type": "text", "text": "s"}]}, "yes"),
        ({"content": [{"type": "thinking", "thinking": "no"}, {"type": "text", "text": "a"}]}, "a"),
    ],
)
async def test_what_the_policy_says_itself_is_an_answer(
    serve: Serve, message: dict[str, Any], text: str
) -> None:
    one = CHAT.model_copy(update={"sampling": SamplingParams(n=1, max_tokens=9)})
    found = await generated(Double(serve, lambda _: (200, reply(message=message))), one)

    assert [answer.text for answer in found.completions] == [text]


@pytest.mark.parametrize(
    ("status", "content", "kind", "message"),
    [
        (400, {"error": "too long"}, InvalidInput, "too long"),
        (200, {"choices": []}, Unreachable, "a reply without choices"),
        (200, reply(usage=None), InvalidInput, "cannot be counted"),
        (200, reply(usage={"completion_tokens": 10**9}), InvalidInput, "9 at most were asked for"),
        (200, reply(usage={"completion_tokens": 0}), InvalidInput, "0 usage.completion_tokens"),
        (200, reply(finish_reason="abort"), Unreachable, "finish_reason abort"),
        (200, reply(finish_reason="content_filter", content=""), Unreachable, "content_filter"),
        (200, reply(finish_reason=None), Unreachable, "finish_reason None"),
        (200, reply(error={"message": "of memory"}), Unreachable, "of memory"),
        (200, reply(content=[1]), Unreachable, "an answer without words: 1"),
        (200, [1], Unreachable, "cannot be read"),
    ],
)
async def test_a_reply_that_cannot_be_used_is_a_typed_failure(
    serve: Serve, status: int, content: Any, kind: type[AssayError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        await generated(Double(serve, lambda _: (status, content)), CHAT)
