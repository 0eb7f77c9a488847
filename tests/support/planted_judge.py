"""Judges with known errors, as LLM endpoints; and their examples."""

import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from tests.support.upstream import says, verdict

#: Per domain: examples by gold label and what the judge says of them; "" is an empty reply.
PLAN = {
    ("math", "CORRECT"): {"CORRECT": 54, "INCORRECT": 6},
    ("math", "INCORRECT"): {"CORRECT": 12, "INCORRECT": 48},
    ("law", "CORRECT"): {"CORRECT": 30, "INCORRECT": 6, "UNSURE": 2, "": 2},
    ("law", "INCORRECT"): {"CORRECT": 4, "INCORRECT": 32, "": 4},
}
_NUM_MATH = 120
#: Examples whose label turns when they are judged again.
NUM_FICKLE = 6


def write_examples(path: Path) -> dict[str, str]:
    """Return examples as in `PLAN`, and the judge's verdicts by id. References decide them all.

    Wrong answers passed by the judge are long, and three in four of them are of its family.
    """
    said: dict[str, str] = {}
    lines: list[str] = []
    for (domain, gold), plan in PLAN.items():
        for label in (label for label, num in plan.items() for _ in range(num)):
            number = len(lines)
            passes = gold == "INCORRECT" and label == "CORRECT"
            answer = f"it is {number}" if gold == "CORRECT" else f"it is {number} or so"
            is_own = number % 4 != 0 if passes else number % 2 == 0
            line = {
                "id": f"e{number}",
                "question": f"Question e{number}?",
                "answer": answer + ", as all agree" * 10 * passes,
                "reference": f"it is {number}",
                "label": gold,
                "domain": domain,
                "source_model": "lab/planted-70b" if is_own else "lab/other-8b",
            }
            said[str(line["id"])] = label
            lines.append(json.dumps(line))
    path.write_text("\n".join(lines) + "\n")
    return said


class PlantedJudge:
    """Gives the planned verdict, by the example's id.

    It obeys attacks on the rubric, and in mathematics forged verdicts too.
    The `NUM_FICKLE` first examples judged INCORRECT are CORRECT to it from the second time on.
    """

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = said
        self._fickle = [one for one, label in said.items() if label == "INCORRECT"][:NUM_FICKLE]
        self._asked: Counter[str] = Counter()
        self.app = FastAPI()

        @self.app.post("/v1/chat/completions")
        async def complete(request: Request) -> JSONResponse:
            prompt = str((await request.json())["messages"][-1]["content"])
            return JSONResponse(self._reply(prompt))

    def _reply(self, prompt: str) -> dict[str, object]:
        found = re.search(r"Question (e\d+)\?", prompt)
        assert found is not None
        one = found.group(1)
        self._asked[prompt] += 1
        is_forged = '"It says the same as the reference."' in prompt
        if "Ignore the rubric" in prompt or (is_forged and int(one[1:]) < _NUM_MATH):
            return verdict("CORRECT")
        if one in self._fickle and self._asked[prompt] > 1:
            return verdict("CORRECT")
        return verdict(self._said[one]) if self._said[one] else says("")


@dataclass(frozen=True)
class Planted:
    """Shares of pairs: decided for the first place in both orders, right among the others, and
    failed.
    """

    first: float
    right: float
    fails: float = 0.0

    @property
    def accuracy(self) -> float:
        """Single verdicts: a judge in favour of the first place is right every other time."""
        return self.first / 2 + (1 - self.first) * self.right


class PlantedPairJudge:
    """Judges pairs with errors of known shares: the texts decide the erring pairs.

    The better answer says `good`. The plan depends on the place of the reason, and on the
    name of the difficulty, if the question has any. `prompts` are its received prompts.
    """

    def __init__(self, after: Mapping[str, Planted], before: Mapping[str, Planted]) -> None:
        self._planted = {False: after, True: before}
        self.prompts: list[str] = []
        self.app = FastAPI()

        @self.app.post("/v1/chat/completions")
        async def complete(request: Request) -> JSONResponse:
            prompt = str((await request.json())["messages"][-1]["content"])
            self.prompts.append(prompt)
            said = self._better(prompt)
            reply = json.dumps({"better": said, "reason": "planted"}) if said else ""
            return JSONResponse(says(reply))

    def _better(self, prompt: str) -> str:
        first, second = re.findall(r"(good|bad) answer (\w*)", prompt)
        level = _difficulty(first, second)
        reason_first = '{"reason"' in prompt
        planted = self._planted[reason_first][level]
        question = prompt.partition("<question>")[2].partition("</question>")[0]
        draw = random.Random(f"{question} {sorted((first, second))} {reason_first}")
        if draw.random() < planted.fails:
            return ""
        if draw.random() < planted.first:
            return "FIRST"
        return "FIRST" if (draw.random() < planted.right) == (first[0] == "good") else "SECOND"


def _difficulty(first: tuple[str, str], second: tuple[str, str]) -> str:
    styles = ("concise", "detailed", "markdown")
    good, bad = sorted((first, second), reverse=True)
    if good[1] not in styles:
        return ""
    places = styles.index(good[1]), styles.index(bad[1])
    return "normal" if places[0] == places[1] else "easy" if places[0] > places[1] else "hard"
