"""An executor's model with a known accuracy and cost for each operator, as a real HTTP server."""

import re
import zlib
from collections import Counter
from typing import NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from assay_reward.workflows.operators.support.prompt_files import prompt_file

_SUM = re.compile(r"What is (\d+) \+ (\d+)\?")


class Skill(NamedTuple):
    """How often an operator's call is right, and the tokens of its reply."""

    accuracy: float
    tokens: int


class ExecutorModel:
    """Solves sums. The prompt and the seed decide, so a run can be repeated.

    `skills` is by the name of the operator's prompt file.
    """

    def __init__(self, **skills: Skill) -> None:
        self.skills = skills
        self.asked: Counter[str] = Counter()
        self.app = FastAPI()
        self.app.post("/v1/chat/completions")(self._complete)

    async def _complete(self, request: Request) -> JSONResponse:
        body = await request.json()
        prompt = body["messages"][-1]["content"]
        name = next(name for name in self.skills if _begins_as(prompt, name))
        skill, found = self.skills[name], _SUM.search(prompt)
        assert found is not None, prompt
        self.asked[name] += 1
        chance = zlib.crc32(f"{body['seed']}/{prompt}".encode()) / 2**32
        value = int(found[1]) + int(found[2]) + (0 if chance < skill.accuracy else 1)
        text = f"```python\nprint({value})\n```" if name == "programmer" else f"Answer: {value}"
        usage = {"prompt_tokens": 50, "completion_tokens": skill.tokens}
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({"model": body["model"], "choices": [choice], "usage": usage})


def _begins_as(prompt: str, name: str) -> bool:
    return prompt.startswith(prompt_file(name).text.splitlines()[0])
