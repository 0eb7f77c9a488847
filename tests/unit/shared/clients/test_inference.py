"""The client's patience with slow sampling, and with a hanging service."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from assay_shared.clients import InferenceClient, inference
from assay_shared.clients.http import NO_RETRY, Timeouts
from assay_shared.errors import TimedOut
from assay_shared.types import GenerateRequest, SamplingParams

REQUEST = GenerateRequest(token_ids=(1, 2), sampling=SamplingParams(max_tokens=4))
DRAWING_S = 1.5


class Slow:
    """A server with slow sampling and, if asked, no answer."""

    def __init__(self) -> None:
        self.hangs = False
        self.num_looks = 0

    async def health(self, request: web.Request) -> web.Response:
        self.num_looks += 1
        if self.hangs:
            await asyncio.sleep(60)
        return web.json_response({"status": "ok"})

    async def generate(self, request: web.Request) -> web.Response:
        await asyncio.sleep(60 if self.hangs else DRAWING_S)
        return web.json_response({"prompt_token_ids": [1, 2], "completions": []})


@pytest.fixture
async def slow(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Slow, InferenceClient]]:
    monkeypatch.setattr(inference, "_LOOK_S", 0.2)
    server, app = Slow(), web.Application()
    app.router.add_get("/health", server.health)
    app.router.add_post("/v1/generate", server.generate)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    limits = Timeouts(read_s=0.5, total_s=0.5)
    async with InferenceClient(
        f"http://127.0.0.1:{port}", timeouts=limits, retry=NO_RETRY
    ) as client:
        yield server, client
    await runner.cleanup()


@pytest.mark.slow
async def test_what_takes_longer_than_a_silence_may_last_is_waited_for(
    slow: tuple[Slow, InferenceClient],
) -> None:
    server, client = slow
    assert (await client.generate(REQUEST)).prompt_token_ids == (1, 2)
    assert server.num_looks > 1


async def test_a_service_that_hangs_is_left_as_soon_as_it_does_not_say_that_it_is_there(
    slow: tuple[Slow, InferenceClient],
) -> None:
    server, client = slow
    server.hangs = True
    started = time.monotonic()
    with pytest.raises(TimedOut, match="GET /health: no answer in time"):
        await client.generate(REQUEST)
    assert time.monotonic() - started < 30
