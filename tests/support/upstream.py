"""An LLM endpoint under the test's orders: a script entry per request, the last for ever."""

import asyncio
import json

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response


def says(
    content: str | None, finish_reason: str = "stop", reasoning: str | None = None
) -> dict[str, object]:
    """An ordinary chat completion."""
    message = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    return {
        "id": "x",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20},
    }


def verdict(label: str) -> dict[str, object]:
    return says(json.dumps({"verdict": label, "reason": "planted"}))


class Upstream:
    """`script`: replies (objects), statuses (integers; a pair has the seconds of a Retry-After),
    `slow`, or a function of the request to any of these; `requests`: the received requests.
    """

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.requests: list[dict[str, object]] = []
        self.tokens: list[str | None] = []
        self.headers: list[dict[str, str]] = []
        self.app = FastAPI()

        @self.app.post("/v1/chat/completions")
        async def complete(request: Request) -> Response:
            self.requests.append(await request.json())
            self.tokens.append(request.headers.get("authorization"))
            self.headers.append(dict(request.headers))
            return await self._answer(self.requests[-1])

    async def _answer(self, asked: dict[str, object]) -> Response:
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if callable(step):
            step = step(asked)
        if step == "slow":
            await asyncio.sleep(3)
            return JSONResponse(verdict("CORRECT"))
        if isinstance(step, int):
            return PlainTextResponse("planted", status_code=step)
        if isinstance(step, tuple):
            status, seconds = step
            return PlainTextResponse("planted", status, headers={"retry-after": str(seconds)})
        return JSONResponse(step)
