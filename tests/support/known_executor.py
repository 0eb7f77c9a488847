"""An executor's model, over real HTTP, with a known accuracy and known tokens for each operator.

A wrong answer is one of some wrong ones, so the accuracy of a vote is known too.
"""

import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from assay_reward.app import create_app
from assay_reward.settings import RewardSettings
from assay_reward.workflows.operators.support.prompt_files import prompt_file

_PROMPT_TOKENS = 40
_FIRST_LINES = {
    prompt_file(name).text.splitlines()[0]: name
    for name in (
        "answer_generate", "programmer", "code_generate", "format", "review", "revise",
        "sc_ensemble", "md_ensemble", "reflect",
    )
}  # fmt: skip
_LETTERED = re.compile(r"^([A-Z]\d*):\n(.*?)(?=\n\n[A-Z]\d*:\n|\Z)", re.MULTILINE | re.DOTALL)


class KnownProblem(NamedTuple):
    """A text that stands in every prompt of the problem, its right answer, and wrong ones."""

    text: str
    right: str
    wrong: tuple[str, ...]
    is_code: bool = False


class KnownSkill(NamedTuple):
    """How often a call is right, the tokens of its reply, and how often the reply is empty."""

    accuracy: float
    tokens: int
    empty: float = 0.0


#: Accuracies and tokens by the operator's prompt file; `custom` stands for every other prompt.
SKILLS: dict[str, KnownSkill] = {
    "answer_generate": KnownSkill(0.5, 100),
    "custom": KnownSkill(0.4, 100),
    "programmer": KnownSkill(0.9, 150),
    "code_generate": KnownSkill(0.5, 200),
    "review": KnownSkill(0.6, 120),
    "revise": KnownSkill(0.5, 150),
    "reflect": KnownSkill(0.5, 200),
}


class KnownExecutor:
    """Replies by prompt and seed, so that a run can be repeated; `asked` counts the prompts."""

    def __init__(
        self, problems: Sequence[KnownProblem], skills: Mapping[str, KnownSkill] = SKILLS
    ) -> None:
        self.problems = list(problems)
        self.skills = skills
        self.asked: Counter[str] = Counter()
        #: The address of the service that asks this model.
        self.service = ""
        self.app = FastAPI()
        self.app.post("/v1/chat/completions")(self._complete)

    async def _complete(self, request: Request) -> JSONResponse:
        body = await request.json()
        prompt = body["messages"][-1]["content"]
        name = next((_FIRST_LINES[one] for one in _FIRST_LINES if prompt.startswith(one)), "custom")
        skill = self.skills.get(name, KnownSkill(1.0, 5))
        self.asked[name] += 1
        rng = random.Random(zlib.crc32(f"{body['seed']}/{prompt}".encode()))
        said = "" if rng.random() < skill.empty else self._said(name, prompt, skill, rng)
        usage = {"prompt_tokens": _PROMPT_TOKENS, "completion_tokens": skill.tokens}
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": said},
            "finish_reason": "stop",
        }
        return JSONResponse({"model": body["model"], "choices": [choice], "usage": usage})

    def _said(self, name: str, prompt: str, skill: KnownSkill, rng: random.Random) -> str:
        if name in ("sc_ensemble", "md_ensemble"):
            texts = _LETTERED.findall(prompt.partition("Problem:")[2])
            counts = Counter(text.strip() for _, text in texts)
            letter, _ = max(texts, key=lambda one: counts[one[1].strip()])
            return str(letter)
        if name == "format":
            return prompt.rpartition("Solution:\n")[2].strip()
        problem = max(
            (one for one in self.problems if one.text in prompt), key=lambda one: len(one.text)
        )
        if name == "review":
            solution = prompt.rpartition("Proposed solution:\n")[2]
            is_right = problem.right in solution
            seen = is_right if rng.random() < skill.accuracy else not is_right
            return "RIGHT" if seen else "WRONG: look again"
        value = problem.right if rng.random() < skill.accuracy else rng.choice(problem.wrong)
        if problem.is_code:
            return f"```python\n{value}\n```"
        if name == "programmer":
            return f"```python\nprint({value!r})\n```"
        return f"Some thoughts.\nAnswer: {value}" if name == "answer_generate" else value


def known_service(
    problems: Sequence[KnownProblem],
    folder: Path,
    serve: Callable[[FastAPI], str],
    sandbox_url: str,
) -> KnownExecutor:
    """Serve such a model, and a reward service that asks it: `service` is the latter's address."""
    model = KnownExecutor(problems)
    endpoint = {"name": "known", "model": "m", "base_url": f"{serve(model.app)}/v1", "attempts": 1}
    price = {"input_per_million": 1.0, "output_per_million": 2.0}
    config = folder / "executor.yaml"
    config.write_text(yaml.safe_dump({"models": [endpoint | {"price": price}]}))
    settings = RewardSettings(executor_config=config, sandbox_url=sandbox_url, reward_workers=1)
    model.service = serve(create_app(settings))
    return model
