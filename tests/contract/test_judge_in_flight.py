"""Judgements in flight together: each caller gets the same verdicts as alone."""

import asyncio
import hashlib
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from fastapi import FastAPI

from assay_judge.app import create_app
from assay_judge.settings import JudgeSettings
from assay_shared.clients import JudgeClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.types import (
    Criterion,
    FailureClass,
    JudgeForm,
    JudgeRequest,
    JudgeResponse,
    Verdict,
)
from tests.conftest import Serve
from tests.support.upstream import says

NUM_REQUESTS = 2000
AT_ONCE = 100
TEXTS = ("Paris", "Lyon", "paris", "42", "It is 42.", "", "no idea", "Paris, as all agree")
QUESTIONS = ("Which city?", "How much?", "Why?")
CRITERIA = (
    Criterion(name="correctness", description="Is it right?"),
    Criterion(name="style", description="Is it short?", low=0, high=3, weight=0.5),
)
_SHOWN = re.compile(r"<(answer number=\d+|answer|first|second)>\n(.*?)\n</", re.DOTALL)


def number(*texts: str) -> int:
    """Return the same number for the same texts, whatever process asks."""
    return int.from_bytes(hashlib.sha256("\0".join(texts).encode()).digest()[:6], "big")


def decide(prompt: str) -> str:
    """Return a verdict by the prompt alone: now by its texts, now by their places."""
    texts = [text for _, text in _SHOWN.findall(prompt)]
    by_place = number("place", *sorted(texts)) % 4 == 0
    best = 0 if by_place else max(range(len(texts)), key=lambda at: number(texts[at]))
    said: dict[str, object] = {"reason": f"for {number(prompt) % 1000}"}
    if '"better"' in prompt:
        tie = number("tie", *sorted(texts)) % 7 == 0
        said["better"] = "TIE" if tie else ("FIRST", "SECOND")[best]
    elif '"best"' in prompt:
        said["best"] = best + 1
    elif '"correctness"' in prompt:
        said |= {"correctness": 1 + number(prompt) % 5, "style": number("s", prompt) % 4}
    else:
        said["verdict"] = ("CORRECT", "INCORRECT", "UNSURE")[number(prompt) % 3]
    return json.dumps(said)


def prefer_long(prompt: str) -> str:
    """Return the verdict of a judge in favour of the longer answer at any place."""
    (_, first), (_, second) = _SHOWN.findall(prompt)
    return json.dumps({"better": "FIRST" if len(first) > len(second) else "SECOND"})


class PromptJudge:
    """An endpoint with a decision by the prompt alone, after a varying moment."""

    def __init__(self, decide: Callable[[str], str] = decide) -> None:
        self.decide = decide
        self.num_asked = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        asked = json.loads(body + message["body"])
        self.num_asked += 1
        prompt = asked["messages"][0]["content"]
        await asyncio.sleep(number("wait", prompt) % 4 / 1000)
        content = json.dumps(says(self.decide(prompt))).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def mixed_requests(seed: int) -> list[JudgeRequest]:
    """Return requests in every form, with answers repeated and permuted among few texts."""
    chance = random.Random(seed)

    def one() -> JudgeRequest:
        form = chance.choice(list(JudgeForm))
        size = {JudgeForm.PAIRWISE: 2, JudgeForm.BEST_OF: chance.randint(2, 5)}
        answers = chance.choices(TEXTS, k=size.get(form, chance.randint(1, 4)))
        return JudgeRequest(
            question=chance.choice(QUESTIONS),
            answers=tuple(answers),
            reference=chance.choice((None, "Paris")),
            form=form,
            criteria=CRITERIA if form is JudgeForm.GRADED else (),
            template=chance.choice((None, None, "reasoned")),
        )

    return [one() for _ in range(NUM_REQUESTS)]


def judge_app(folder: Path, upstream: str) -> FastAPI:
    provider = {"kind": "openai", "name": "p", "base_url": f"{upstream}/v1", "model": "m"}
    path = folder / "judge.yaml"
    path.write_text(yaml.safe_dump({"chain": [provider | {"timeout_s": 60.0}]}))
    return create_app(JudgeSettings(judge_config=path))


async def judge_all(
    url: str, requests: Sequence[JudgeRequest], at_once: int
) -> list[JudgeResponse]:
    waiting = list(enumerate(requests))[::-1]
    found: dict[int, JudgeResponse] = {}

    async def work(client: JudgeClient) -> None:
        while waiting:
            at, request = waiting.pop()
            found[at] = await client.judge(request)

    async with JudgeClient(url, retry=NO_RETRY) as client:
        await asyncio.gather(*(work(client) for _ in range(at_once)))
    return [found[at] for at in range(len(requests))]


@pytest.mark.slow
async def test_mixed_requests_in_flight_get_the_verdicts_that_they_get_alone(
    serve: Serve, tmp_path: Path
) -> None:
    upstream = serve(cast(FastAPI, PromptJudge()))
    requests = mixed_requests(seed=7)
    alone = await judge_all(serve(judge_app(tmp_path, upstream)), requests, 1)
    together = await judge_all(serve(judge_app(tmp_path, upstream)), requests, AT_ONCE)
    for request, one, other in zip(requests, alone, together, strict=True):
        assert findings(one) == findings(other), request
    for request, response in zip(requests, together, strict=True):
        if request.form in (JudgeForm.PAIRWISE, JudgeForm.BEST_OF):
            check_ties(request, response)


def findings(response: JudgeResponse) -> list[Verdict]:
    """Return the verdicts without their history: requests shared in flight are counted once."""
    assert all(isinstance(judged, Verdict) for judged in response.judgements), response
    verdicts = cast(tuple[Verdict, ...], response.judgements)
    return [verdict.model_copy(update={"history": ()}) for verdict in verdicts]


def check_ties(request: JudgeRequest, response: JudgeResponse) -> None:
    scores: dict[str, set[float | None]] = {}
    for answer, judged in zip(request.answers, response.judgements, strict=True):
        assert isinstance(judged, Verdict)
        scores.setdefault(answer, set()).add(judged.score)
    assert all(len(equal) == 1 for equal in scores.values()), request


async def test_a_pair_and_its_reverse_in_flight_agree_on_the_better_answer(
    serve: Serve, tmp_path: Path
) -> None:
    upstream = PromptJudge(prefer_long)
    url = serve(judge_app(tmp_path, serve(cast(FastAPI, upstream))))
    pair = JudgeRequest(question="q", answers=("Lyon", "Paris"), form=JudgeForm.PAIRWISE)
    back = pair.model_copy(update={"answers": ("Paris", "Lyon")})
    one, other = await judge_all(url, [pair, back], 2)
    scores = [[j.score for j in r.judgements if isinstance(j, Verdict)] for r in (one, other)]
    assert scores == [[0.0, 1.0], [1.0, 0.0]]
    assert upstream.num_asked == 2, "both requests ask the same two prompts"


async def test_what_stops_the_first_caller_does_not_stop_one_who_joined(
    serve: Serve, tmp_path: Path
) -> None:
    """A run over its ceiling asks first; a run within it shares the flight, and must be judged."""
    upstream = serve(cast(FastAPI, PromptJudge()))
    provider = {"kind": "openai", "name": "p", "base_url": f"{upstream}/v1", "model": "m"}
    path = tmp_path / "judge.yaml"
    chain = [provider | {"price": {"input_per_million": 1e4}}]
    path.write_text(yaml.safe_dump({"chain": chain, "ceiling": 0.001}))
    url = serve(create_app(JudgeSettings(judge_config=path)))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        spent = JudgeRequest(question="first", answers=("a",), run="poor")
        await client.judge(spent)
        ask = JudgeRequest(question="second", answers=("a",), run="poor")
        both = (ask, ask.model_copy(update={"run": "rich"}))
        poor, rich = await asyncio.gather(*(client.judge(one) for one in both))
    (refused,), (judged,) = poor.judgements, rich.judgements
    assert isinstance(judged, Verdict)
    if not isinstance(refused, Verdict):  # else it joined the flight of the one who may pay
        assert refused.failure.failure_class is FailureClass.BUDGET
