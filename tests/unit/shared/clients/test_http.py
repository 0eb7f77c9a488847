"""Requests as a client writes them."""

import json

import pytest
from aiohttp import web

from assay_shared.clients import InferenceClient
from assay_shared.errors import CallerError
from assay_shared.types import GenerateRequest, Message


async def test_half_of_a_character_reaches_the_service_as_it_was_written() -> None:
    """UTF-8 has no bytes for it; JSON can spell it."""
    bodies = []

    async def generate(request: web.Request) -> web.Response:
        bodies.append(json.loads(await request.read()))
        return web.json_response({"detail": "no"}, status=400)

    app = web.Application()
    app.router.add_post("/v1/generate", generate)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with InferenceClient(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
            with pytest.raises(CallerError):
                await client.generate(
                    GenerateRequest(messages=(Message(role="user", content="x\ud800"),))
                )
    finally:
        await runner.cleanup()
    assert [body["messages"][0]["content"] for body in bodies] == ["x\ud800"]
