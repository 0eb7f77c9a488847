"""A refusal by an engine's server is the caller's fault; an unclear answer is the server's."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from assay_inference.engines.child.http import Drawn, ServerApi
from assay_inference.engines.sglang.http import SglangApi
from assay_inference.engines.vllm.http import VllmApi
from assay_shared.errors import AssayError, EngineFault, InternalFault, InvalidInput, Unreachable
from assay_shared.types import SamplingParams

SAMPLING = SamplingParams(max_tokens=4)
REASON = "the input of 9,000 tokens is longer than the model's maximum of 8,192"
Answer = Callable[[web.Request], web.StreamResponse]


def refusal(_: web.Request) -> web.Response:
    return web.json_response({"error": {"message": REASON, "code": 400}}, status=400)


def event(content: object) -> Answer:
    line = f"data: {json.dumps(content)}\n\n"
    return lambda _: web.Response(text=line, content_type="text/event-stream")


def aborted(status_code: int) -> dict[str, Any]:
    finish = {"type": "abort", "message": REASON, "status_code": status_code}
    meta = {
        "weight_version": "digest",
        "prompt_tokens": 2,
        "finish_reason": finish,
        "output_token_logprobs": [],
    }
    return {"index": 0, "output_ids": [], "meta_info": meta}


@asynccontextmanager
async def served(kind: str, answer: Answer, folder: Path) -> AsyncIterator[ServerApi]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return answer(request)

    app = web.Application()
    app.router.add_post("/v1/completions", handle)
    app.router.add_post("/generate", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    api: ServerApi
    if kind == "vllm":
        await web.UnixSite(runner, str(folder / "s")).start()
        api = VllmApi(folder / "s")
    else:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        api = SglangApi(f"http://127.0.0.1:{port}", "key", "digest")
    try:
        yield api
    finally:
        await api.close()
        await runner.cleanup()


async def drawn(api: ServerApi, *, streamed: bool) -> list[Drawn]:
    if not streamed:
        return await api.generate([1, 2], SAMPLING, frozenset(), 10.0)
    return [one async for _, one in api.stream([1, 2], SAMPLING, frozenset(), 10.0)]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_a_refused_request_is_the_callers_with_the_engines_reason(
    kind: str, streamed: bool, tmp_path: Path
) -> None:
    async with served(kind, refusal, tmp_path) as api:
        with pytest.raises(InvalidInput, match="the input of 9,000 tokens"):
            await drawn(api, streamed=streamed)


@pytest.mark.parametrize(
    ("kind", "content", "error"),
    [
        ("vllm", {"error": {"message": REASON, "code": 400}}, InvalidInput),
        ("vllm", {"error": {"message": "died", "code": 500}}, Unreachable),
        ("sglang", aborted(400), InvalidInput),
        ("sglang", aborted(500), Unreachable),
    ],
)
async def test_a_refusal_within_a_stream_is_told_from_an_engine_that_fails(
    kind: str, content: object, error: type[AssayError], tmp_path: Path
) -> None:
    async with served(kind, event(content), tmp_path) as api:
        with pytest.raises(error):
            await drawn(api, streamed=True)


async def test_a_refused_call_of_our_own_stays_ours(tmp_path: Path) -> None:
    async with served("vllm", refusal, tmp_path) as api:
        with pytest.raises(InternalFault, match="the input of 9,000 tokens"):
            await api.prompt_logprobs([1, 2], 10.0)


async def test_an_answer_of_other_weights_is_a_fault_of_the_engine(tmp_path: Path) -> None:
    stale = aborted(400)
    stale["meta_info"]["weight_version"] = "older"
    async with served("sglang", lambda _: web.json_response([stale]), tmp_path) as api:
        with pytest.raises(EngineFault, match="answered under weights older") as fault:
            await drawn(api, streamed=False)
    assert fault.value.retryable
