"""A real HTTP server of OpenAI chat completions, with replies from a function of the request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.test_utils import TestServer


class Said(NamedTuple):
    """A reply of a model, with what its endpoint reports about it."""

    text: str = ""
    finish_reason: str = "stop"
    reasoning: str = ""
    status: int = 200
    prompt_tokens: int = 10
    completion_tokens: int = 5
    #: Seconds before the answer.
    delay_s: float = 0.0


class ChatModel:
    """A server of one model. `bodies` has its requests, in order."""

    def __init__(self, reply: Callable[[dict[str, Any]], Said | Awaitable[Said]]) -> None:
        self._reply = reply
        self.bodies: list[dict[str, Any]] = []
        self.num_running = self.max_running = 0
        self._arrived = asyncio.Condition()
        #: Address of the API while it is served.
        self.url = ""

    @asynccontextmanager
    async def served(self) -> AsyncIterator["ChatModel"]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        async with TestServer(app) as server:
            self.url = str(server.make_url("/v1"))
            yield self

    async def running(self, number: int) -> None:
        """Wait until `number` requests are in flight."""
        async with self._arrived, asyncio.timeout(20):
            await self._arrived.wait_for(lambda: self.num_running >= number)

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        async with self._arrived:
            self.num_running += 1
            self.max_running = max(self.max_running, self.num_running)
            self._arrived.notify_all()
        try:
            said = self._reply(body)
            if not isinstance(said, Said):
                said = await said
            await asyncio.sleep(said.delay_s)
        finally:
            self.num_running -= 1
        if said.status != 200:
            return web.json_response({"error": {"message": "no"}}, status=said.status)
        message = {"role": "assistant", "content": said.text}
        if said.reasoning:
            message["reasoning_content"] = said.reasoning
        choice = {"index": 0, "message": message, "finish_reason": said.finish_reason}
        usage = {
            "prompt_tokens": said.prompt_tokens,
            "completion_tokens": said.completion_tokens,
        }
        return web.json_response({"model": body["model"], "choices": [choice], "usage": usage})
