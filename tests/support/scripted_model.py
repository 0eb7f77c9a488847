"""An OpenAI-compatible model whose reply is a function of the request alone: also after a kill."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

#: Made-up words, so that no two instructions are near to each other by chance.
WORDS = [f"{a}{b}{c}" for a in ("ka", "mo", "ti", "ru") for b in "lnrs" for c in ("ba", "do", "fi")]
NEW = "more tasks, numbered from"
CRITIQUE, REVISION = "Name the faults.", "Write it again."


def fresh(rng: random.Random, number: int) -> str:
    words = rng.sample(WORDS, 6)
    return f"{words[0].title()} {words[1]} {words[2]} {number} {words[3]} {words[4]} {words[5]}."


class ScriptedModel:
    """`asked` has the number of times that each request came.

    A request for new instructions gets `num_fresh` new ones, and all of `planted`. `answer` gets
    an instruction, and may return a status in the place of a text.
    """

    def __init__(
        self,
        planted: Sequence[str] = (),
        answer: Callable[[str], str | int] = "An answer to: {}".format,
        num_fresh: int = 3,
        delay_s: float = 0.0,
    ) -> None:
        self.planted, self.answer = list(planted), answer
        self.num_fresh, self.delay_s = num_fresh, delay_s
        #: While it is true, all requests get a 500.
        self.is_down = False
        self.asked: Counter[str] = Counter()
        self.app = FastAPI()
        self.app.post("/v1/chat/completions")(self._chat)
        self.app.post("/v1/completions")(self._raw)
        self.app.get("/v1/models")(lambda: {"data": [{"id": "scripted"}]})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        messages = body["messages"]
        return await self._reply(messages[-1]["content"], messages[0]["content"], body)

    async def _raw(self, request: Request) -> Response:
        body = await request.json()
        return await self._reply(body["prompt"], body["prompt"], body)

    async def _reply(self, last: str, first: str, body: dict[str, Any]) -> Response:
        self.asked[f"{body['seed']}"] += 1
        await asyncio.sleep(self.delay_s)
        if self.is_down:
            return PlainTextResponse("planted", status_code=500)
        text: str | int
        if NEW in last:
            text = self._new(body["seed"])
        elif last == CRITIQUE:
            text = f"It has faults: {first}"
        elif last == REVISION:
            text = f"Better. {first}"
        else:
            text = self.answer(first)
        if isinstance(text, int):
            return PlainTextResponse("planted", status_code=text)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        if text.endswith("<cut>"):
            choice["finish_reason"] = "length"
        choice["message"] = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 1, "completion_tokens": min(200, len(text.split()))}
        return JSONResponse({"choices": [choice], "usage": usage})

    def _new(self, seed: int) -> str:
        rng = random.Random(seed)
        made = [fresh(rng, number) for number in range(self.num_fresh)]
        lines = [*made, *(" ".join(one.split()) for one in self.planted)]
        return "\n".join(f"{number}. {one}" for number, one in enumerate(lines, start=1))
