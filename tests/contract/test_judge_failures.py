"""Faults of a provider's endpoint or of a caller: all bounded, classified and never a verdict."""

import asyncio
import gzip
import json
import re
import resource
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from assay_judge.app import create_app
from assay_judge.settings import JudgeSettings
from assay_shared.clients import JudgeClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import Overloaded, to_body
from assay_shared.types import Abstention, Failure, JudgeRequest, JudgeResponse, Verdict
from tests.conftest import Serve
from tests.support.upstream import Upstream, says, verdict

ONE = JudgeRequest(question="q", answers=("a",), reference="r")
CORRECT = json.dumps({"verdict": "CORRECT"})


def make_judge(serve: Serve, folder: Path, upstream: str, **changes: object) -> str:
    provider = {"kind": "openai", "name": "p", "base_url": f"{upstream}/v1", "model": "m"}
    path = folder / "judge.yaml"
    chain = [provider | {"timeout_s": 10.0, "attempts": 2} | changes]
    path.write_text(yaml.safe_dump({"chain": chain, "deadline_s": 20.0}))
    return serve(create_app(JudgeSettings(judge_config=path)))


async def ask(url: str, request: JudgeRequest = ONE) -> JudgeResponse:
    async with JudgeClient(url, retry=NO_RETRY) as client:
        return await client.judge(request)


async def failure_of(url: str, request: JudgeRequest = ONE) -> Failure:
    (judgement,) = (await ask(url, request)).judgements
    assert isinstance(judgement, Abstention), judgement
    return judgement.failure


def answering(make: Any) -> FastAPI:
    """Return an endpoint with the results of `make` as answers."""
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        response: Response = make()
        return response

    return app


def whole() -> Response:
    return Response(json.dumps(says(CORRECT)), media_type="application/json")


@pytest.mark.parametrize("status", [500, 501, 507, 520, 529, 599, 409, 425])
async def test_what_passes_by_itself_is_retried_and_ends_retryable(
    serve: Serve, tmp_path: Path, status: int
) -> None:
    upstream = Upstream(status)
    failure = await failure_of(make_judge(serve, tmp_path, serve(upstream.app)))
    assert len(upstream.requests) == 2
    assert failure.retryable
    assert f"HTTP {status}" in failure.message


@pytest.mark.parametrize("content", [b"<html>busy</html>", b'{"choices": [{"mess'])
async def test_an_answer_that_is_not_a_completion_ends_retryable(
    serve: Serve, tmp_path: Path, content: bytes
) -> None:
    upstream = serve(answering(lambda: Response(content)))
    assert (await failure_of(make_judge(serve, tmp_path, upstream))).retryable


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refused_content_says_so_and_leaves_the_breaker_alone(
    serve: Serve, tmp_path: Path, status: int
) -> None:
    """Too long answers are the fault of a caller; the judge stays open to others."""
    upstream = Upstream(*[status] * 8, verdict("CORRECT"))
    url = make_judge(serve, tmp_path, serve(upstream.app), open_after=2)
    long = ONE.model_copy(update={"answers": tuple(f"long {n}" for n in range(8))})
    for judgement in (await ask(url, long)).judgements:
        assert isinstance(judgement, Abstention)
        assert f"HTTP {status}" in judgement.failure.message
        assert not judgement.failure.retryable
    assert len(upstream.requests) == 8
    assert isinstance((await ask(url)).judgements[0], Verdict)


CAUSED_BY_AN_ANSWER = {
    "prose": says("I must not."),
    "nothing": says(""),
    "a filter": says(CORRECT, "content_filter"),
    "a refusal": {"choices": [{"index": 0, "message": {"refusal": "no"}, "finish_reason": "stop"}]},
}


@pytest.mark.parametrize("reply", CAUSED_BY_AN_ANSWER.values(), ids=CAUSED_BY_AN_ANSWER)
async def test_replies_that_an_answer_can_cause_do_not_close_the_judge_to_others(
    serve: Serve, tmp_path: Path, reply: object
) -> None:
    upstream = Upstream(reply)
    url = make_judge(serve, tmp_path, serve(upstream.app), open_after=2)
    for number in range(4):
        await failure_of(url, ONE.model_copy(update={"answers": (f"attack {number}",)}))
    upstream.script = [verdict("CORRECT")]
    assert isinstance((await ask(url)).judgements[0], Verdict)


def soon(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("header", "at_least_s"),
    [(lambda: "0.7", 0.7), (lambda: soon(2.5), 1.4), (lambda: "²", 0.0), (lambda: "soon", 0.0)],
    ids=["fraction", "date", "superscript", "word"],
)
@pytest.mark.slow
async def test_retry_after_is_read_as_a_fraction_and_a_date(
    serve: Serve, tmp_path: Path, header: Any, at_least_s: float
) -> None:
    refused = [1]

    def next_one() -> Response:
        return raw_header(header()) if refused and refused.pop() else whole()

    url = make_judge(serve, tmp_path, serve(answering(next_one)))
    started = time.monotonic()
    assert isinstance((await ask(url)).judgements[0], Verdict)
    assert at_least_s <= time.monotonic() - started < 10


def raw_header(value: str) -> Response:
    response = PlainTextResponse("busy", 429)
    response.raw_headers.append((b"retry-after", value.encode("latin-1")))
    return response


async def test_a_long_pause_is_told_by_the_failure_and_by_health(
    serve: Serve, tmp_path: Path
) -> None:
    url = make_judge(serve, tmp_path, serve(Upstream((429, 99999)).app))
    await failure_of(url)
    failure = await failure_of(url)
    assert "none for 600 s more" in failure.message or "none for 599 s more" in failure.message
    async with JudgeClient(url) as client:
        paused = (await client.health())["paused_s"]
    assert isinstance(paused, dict)
    assert 590 < paused["p"] <= 600


REFUSED = {
    "one key twice": (
        lambda: says('{"verdict": "INCORRECT", "verdict": "CORRECT"}'),
        "'verdict' twice",
    ),
    "NaN": (lambda: says('{"verdict": "CORRECT", "confidence": NaN}'), "not a verdict"),
    "filter": (lambda: says(CORRECT, "content_filter"), "content_filter"),
    "error as reason": (lambda: says(CORRECT, "error"), "finish_reason error"),
    "abort": (lambda: says(CORRECT, "abort"), "finish_reason abort"),
    "tool_calls": (lambda: says(CORRECT, "tool_calls"), "finish_reason tool_calls"),
    "no reason": (lambda: says(CORRECT, None), "finish_reason None"),  # type: ignore[arg-type]
    "error next to choices": (
        lambda: says(CORRECT) | {"error": {"code": 502, "message": "provider down"}},
        "provider down",
    ),
    "another model": (lambda: says(CORRECT) | {"model": "m-mini"}, "'m-mini' was served"),
    "another index": (lambda: choices((1, "CORRECT")), "0 choices of index 0"),
    "index twice": (lambda: choices((0, "CORRECT"), (0, "INCORRECT")), "2 choices of index 0"),
    "an image": (lambda: says([{"type": "image_url", "image_url": {}}]), "an empty reply"),  # type: ignore[arg-type]
}


def choices(*found: tuple[int, str]) -> dict[str, object]:
    one = [
        {
            "index": index,
            "message": {"content": json.dumps({"verdict": label})},
            "finish_reason": "stop",
        }
        for index, label in found
    ]
    return {"choices": one}


@pytest.mark.parametrize("make", [m for m, _ in REFUSED.values()], ids=list(REFUSED))
async def test_a_reply_that_is_not_plainly_the_verdict_is_refused_with_a_trace(
    serve: Serve, tmp_path: Path, make: Any
) -> None:
    expected = next(text for one, text in REFUSED.values() if one is make)
    failure = await failure_of(make_judge(serve, tmp_path, serve(Upstream(make()).app)))
    assert expected in failure.message
    assert failure.retryable


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda body: body.replace(b"{", b'{"choices": [], ', 1), "choices"),
        (lambda body: body.replace(b'"content"', b'"content": "no", "content"'), "content"),
    ],
    ids=["choices", "content"],
)
async def test_a_completion_with_a_key_twice_is_refused_with_a_trace(
    serve: Serve, tmp_path: Path, change: Any, key: str
) -> None:
    body = change(json.dumps(says(CORRECT)).encode())
    upstream = serve(answering(lambda: Response(body)))
    failure = await failure_of(make_judge(serve, tmp_path, upstream))
    assert f"the key '{key}' twice" in failure.message
    assert failure.retryable


ENCODED = {
    "a byte order mark": lambda body: Response(b"\xef\xbb\xbf" + body),
    "UTF-16": lambda body: Response(body.decode().encode("utf-16")),
    "two gzip members": lambda body: Response(
        gzip.compress(body[:30]) + gzip.compress(body[30:]), headers={"content-encoding": "gzip"}
    ),
    "a mark in the content": lambda body: Response(body.replace(b'": "{', b'": "\\ufeff{')),
    "half a character": lambda body: Response(body.replace(b"VERDICT_REASON", b"\\ud800")),
    "a fence in capitals": lambda body: Response(
        body.replace(b'": "{', b'": "```JSON\\n{').replace(b'}"', b'}\\n```"')
    ),
}


@pytest.mark.parametrize("encode", ENCODED.values(), ids=ENCODED)
async def test_a_reply_in_an_unusual_encoding_is_read(
    serve: Serve, tmp_path: Path, encode: Any
) -> None:
    content = '{"verdict": "CORRECT", "reason": "VERDICT_REASON"}'
    body = json.dumps(says(content)).encode()
    assert encode(body).body != body
    upstream = serve(answering(lambda: encode(body)))
    (judged,) = (await ask(make_judge(serve, tmp_path, upstream))).judgements
    assert isinstance(judged, Verdict)
    assert judged.label == "CORRECT"


async def test_the_choice_is_taken_by_its_index(serve: Serve, tmp_path: Path) -> None:
    reply = choices((1, "INCORRECT"), (0, "CORRECT"))
    (judged,) = (await ask(make_judge(serve, tmp_path, serve(Upstream(reply).app)))).judgements
    assert isinstance(judged, Verdict)
    assert judged.label == "CORRECT"


@pytest.mark.parametrize("served", ["m", "M-2026-11-22", "lab/m", "m:latest", "alias", None])
async def test_a_version_of_the_model_or_a_name_of_its_own_is_taken(
    serve: Serve, tmp_path: Path, served: str | None
) -> None:
    upstream = serve(Upstream(says(CORRECT) | {"model": served}).app)
    url = make_judge(serve, tmp_path, upstream, served_as=["alias"])
    assert isinstance((await ask(url)).judgements[0], Verdict)


REASONED = {
    "think": f'<think>Is it {{}}? Perhaps {{"verdict": "INCORRECT"}}.</think>\n\n{CORRECT}',
    "think opened by the template": f"Well, it is.\n</think>\n{CORRECT}",
    "harmony": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    f"<|channel|>final<|message|>{CORRECT}<|return|>",
    "harmony without special tokens": f"analysisWe must decide. Fine.assistantfinal{CORRECT}",
    "parts": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": CORRECT}],
    "brackets and a fence": f"[THINK]hm[/THINK]```json\n{CORRECT}\n```",
}


@pytest.mark.parametrize("content", REASONED.values(), ids=REASONED)
async def test_reasoning_inside_the_content_is_set_apart(
    serve: Serve, tmp_path: Path, content: Any
) -> None:
    (judged,) = (
        await ask(make_judge(serve, tmp_path, serve(Upstream(says(content)).app)))
    ).judgements
    assert isinstance(judged, Verdict), judged
    assert judged.label == "CORRECT"


UNDECIDED = {
    "only thinks": f"<think>{CORRECT}",
    "prose after thinking": "<think>hm</think>It is correct.",
    "a tag within a reply": '{"verdict": "INCORRECT", "reason": "</think>' + CORRECT + '"}',
    "no final channel": f"<|channel|>analysis<|message|>{CORRECT}",
}


@pytest.mark.parametrize("content", UNDECIDED.values(), ids=UNDECIDED)
async def test_a_verdict_within_the_reasoning_is_none(
    serve: Serve, tmp_path: Path, content: str
) -> None:
    await failure_of(make_judge(serve, tmp_path, serve(Upstream(says(content)).app)))


USAGES = {
    "missing": None,
    "null": {"prompt_tokens": None, "completion_tokens": 5},
    "nothing was read": {"prompt_tokens": 0, "completion_tokens": 5},
    "two billion": {"prompt_tokens": 2_000_000_000, "completion_tokens": 5},
    "more than was asked for": {"prompt_tokens": 100, "completion_tokens": 10**9},
    "texts": {"prompt_tokens": "many", "completion_tokens": []},
}


@pytest.mark.parametrize("usage", USAGES.values(), ids=USAGES)
async def test_usage_that_cannot_be_true_is_estimated_and_marked(
    serve: Serve, tmp_path: Path, usage: object
) -> None:
    upstream = serve(Upstream(says(CORRECT) | {"usage": usage}).app)
    url = make_judge(serve, tmp_path, upstream, price={"input_per_million": 1})
    judged = await ask(url)
    assert isinstance(judged.judgements[0], Verdict)
    cost = judged.cost
    assert 100 < cost.judge_tokens < 1000
    assert cost.estimated_tokens == cost.judge_tokens
    async with JudgeClient(url) as client:
        spent = await client.get("/v1/spending")
    assert isinstance(spent, dict)
    assert spent["estimated_tokens"] == cost.judge_tokens
    assert float(str(spent["money"])) > 0


async def test_usage_that_the_endpoint_counts_is_not_marked(serve: Serve, tmp_path: Path) -> None:
    judged = await ask(make_judge(serve, tmp_path, serve(Upstream(verdict("CORRECT")).app)))
    assert (judged.cost.judge_tokens, judged.cost.estimated_tokens) == (120, 0)


async def test_keys_in_a_providers_texts_are_hidden(serve: Serve, tmp_path: Path) -> None:
    key = "s" + "k-proj-" + "a1B2" * 8
    (tmp_path / "key").write_text("opensesame")
    said = f"bad key {key} or opensesame; Authorization: Bearer {key}"
    endpoints = (
        answering(lambda: PlainTextResponse(said, 401)),
        Upstream(says(CORRECT) | {"error": {"message": said}}).app,
        Upstream(says(f"I saw {key}")).app,
    )
    for endpoint in endpoints:
        url = make_judge(
            serve, tmp_path, serve(endpoint), api_key_file=str(tmp_path / "key"), attempts=1
        )
        message = (await failure_of(url)).message
        assert "[hidden]" in message
        assert key not in message
        assert "opensesame" not in message


async def test_an_error_in_our_own_form_does_not_choose_its_class(
    serve: Serve, tmp_path: Path
) -> None:
    body = to_body(Overloaded("later", retry_after_s=500.0), "policy", None).model_dump_json()
    url = make_judge(serve, tmp_path, serve(answering(lambda: Response(body, 401))))
    failure = await failure_of(url)
    assert "HTTP 401" in failure.message
    assert not failure.retryable
    async with JudgeClient(url) as client:
        assert (await client.health())["paused_s"] == {}


async def test_a_question_does_not_follow_a_redirect(serve: Serve, tmp_path: Path) -> None:
    other = Upstream(verdict("CORRECT"))
    elsewhere = serve(other.app) + "/v1/chat/completions"
    url = make_judge(serve, tmp_path, serve(answering(lambda: RedirectResponse(elsewhere, 307))))
    failure = await failure_of(url)
    assert "HTTP 307: it sends to" in failure.message
    assert other.requests == []


@pytest.mark.slow
async def test_a_bomb_of_a_body_is_neither_kept_nor_unpacked(serve: Serve, tmp_path: Path) -> None:
    bomb = gzip.compress(b"\0" * 200_000_000, 1)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)  # else an end of the connection goes unnoticed

    def zipped() -> Response:
        return Response(bomb, headers={"content-encoding": "gzip"})

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for make in (zipped, lambda: StreamingResponse(endless())):
        started = time.monotonic()
        failure = await failure_of(make_judge(serve, tmp_path, serve(answering(make))))
        assert "over 4194304 bytes" in failure.message
        assert time.monotonic() - started < 8
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 150


async def test_a_packed_body_of_usual_size_is_read(serve: Serve, tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(says(CORRECT)).encode())
    make = lambda: Response(packed, headers={"content-encoding": "gzip"})  # noqa: E731
    url = make_judge(serve, tmp_path, serve(answering(make)))
    assert isinstance((await ask(url)).judgements[0], Verdict)


BAD_CRITERIA = {
    "a scale of millions": ([{"name": "a", "description": "", "high": 10**7}], "high"),
    "too many steps": ([{"name": "a", "description": "", "low": 0, "high": 500}], "100 steps"),
    "names alike": ([{"name": "a", "description": ""}, {"name": "A", "description": ""}], "called"),
    "a key of the reply": ([{"name": "reason", "description": ""}], "must not be called reason"),
    "a weight of 1e308": ([{"name": "a", "description": "", "weight": 1e308}], "weight"),
}


@pytest.mark.parametrize(("criteria", "message"), BAD_CRITERIA.values(), ids=BAD_CRITERIA)
async def test_scales_weights_and_names_of_criteria_are_bounded(
    serve: Serve, criteria: object, message: str
) -> None:
    body = {"question": "q", "answers": ["a"], "form": "graded", "criteria": criteria}
    error = await refusal(serve, json.dumps(body).encode())
    assert re.search(message, f"{error['param']}: {error['message']}")


async def refusal(serve: Serve, body: bytes) -> dict[str, object]:
    """Return the judge's error for this body; the error must be the caller's."""
    url = serve(create_app(JudgeSettings()))
    headers = {"content-type": "application/json"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/judge", data=body, headers=headers) as response,
    ):
        assert response.status == 422
        error: dict[str, object] = (await response.json())["error"]
    assert error["failure_class"] == "caller"
    return error


async def test_text_that_utf8_cannot_carry_is_a_callers_mistake(serve: Serve) -> None:
    body = b'{"question": "\\ud800", "answers": ["a"], "reference": "a"}'
    assert (await refusal(serve, body))["param"] == "question"


async def test_bad_json_names_a_place_and_no_field(serve: Serve) -> None:
    error = await refusal(serve, b'{"a": 1,}')
    assert error["param"] is None
    assert "character 8" in str(error["message"])


async def test_a_provider_is_told_that_the_request_is_json(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(verdict("CORRECT"))
    await ask(make_judge(serve, tmp_path, serve(upstream.app)))
    assert upstream.headers[0]["content-type"] == "application/json"


async def test_the_reason_is_asked_for_first_where_the_provider_is_set_so(
    serve: Serve, tmp_path: Path
) -> None:
    upstream = Upstream(verdict("CORRECT"))
    url = make_judge(serve, tmp_path, serve(upstream.app), reason_first=True, structured=True)
    await ask(url)
    (asked,) = upstream.requests
    prompt = json.dumps(asked["messages"])
    assert prompt.index("your steps") < prompt.index("CORRECT")
    schema = asked["response_format"]["json_schema"]["schema"]  # type: ignore[index]
    assert list(schema["properties"]) == ["reason", "verdict"]
