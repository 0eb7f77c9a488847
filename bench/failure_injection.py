"""Compares advantages if failed samples are left out (as here) or count as 0 (as is common).

    python -m bench.failure_injection --groups 200

A real reward service scores the same groups of answers with known rewards four times: with a
working sandbox and judge, and with 5, 13 and 30 percent of their calls failing for good, by a proxy
in between. Advantages are the trainer's own. Writes a table and `docs/images/failures.png`.
"""

import argparse
import asyncio
import hashlib
import json
import random
import socket
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp
import uvicorn
from fastapi import FastAPI, Request, Response

from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import RewardClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import InfrastructureError
from assay_shared.types import CallCase, Role, Scored, ScoreRequest, Task
from assay_trainer.learner.advantage import advantages
from assay_trainer.learner.normalisation.group_rewards import GroupRewards

SHARES = (0.05, 0.13, 0.30)
GROUP_SIZE = 8
_FIGURE = Path(__file__).parents[1] / "docs" / "images" / "failures.png"
_RESULT = Path(__file__).parent / "results" / "failure_injection.json"
_PARALLEL_GROUPS = 8

Rewards = list[list[float | None]]


def flaky(upstream: str, share: float) -> FastAPI:
    """Return a proxy that fails a share of all bodies. The same body always fails, even on retry.

    The failures are those of real services: an error, an overload or an unreadable answer.
    """
    app = FastAPI()

    @app.post("/{path:path}")
    async def forward(path: str, request: Request) -> Response:
        body = await request.body()
        draw = int.from_bytes(hashlib.sha256(body).digest()[:8])
        if draw / 2**64 < share:
            return [
                Response(status_code=500, content=b"Traceback"),
                Response(status_code=503),
                Response(status_code=200, content=b"<html>"),
            ][draw % 3]
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{upstream}/{path}", data=body, headers={"content-type": "application/json"}
            ) as answer,
        ):
            return Response(
                await answer.read(), answer.status, media_type=answer.headers.get("content-type")
            )

    return app


def make_requests(num_groups: int, seed: int = 0) -> list[ScoreRequest]:
    """Return groups of unique programs with known rewards, and of words for the judge."""
    rng = random.Random(seed)
    return [_words(i, rng) if i % 4 == 3 else _programs(i, rng) for i in range(num_groups)]


def _programs(number: int, rng: random.Random) -> ScoreRequest:
    """Return a group of programs; each is right for all arguments below its own bound."""
    cases = tuple(CallCase(function="f", args=(x,), expected=2 * x + number) for x in range(4))
    task = Task(
        id=f"p{number}",
        dataset="injection",
        role=Role.TRAIN,
        prompt=f"Write f(x): twice x plus {number}.",
        rubric="code.dense",
        tests=cases,
    )
    bounds = [rng.choice([0, 1, 2, 4, 4]) for _ in range(GROUP_SIZE)]
    answers = tuple(
        f"def f(x):  # {at}\n    return 2 * x + {number} if x < {bound} else None\n"
        for at, bound in enumerate(bounds)
    )
    return ScoreRequest(task=task, answers=answers)


def _words(number: int, rng: random.Random) -> ScoreRequest:
    task = Task(
        id=f"w{number}",
        dataset="injection",
        role=Role.TRAIN,
        prompt=f"Which colour has room {number}?",
        rubric="qa",
        reference=f"green {number}",
    )
    answers = tuple(f"{rng.choice(['green', 'red'])} {number}" for _ in range(GROUP_SIZE))
    return ScoreRequest(task=task, answers=answers)


async def score(url: str, requests: Sequence[ScoreRequest]) -> Rewards:
    """Return the rewards of each group; None for a sample without a reward."""
    slots = asyncio.Semaphore(_PARALLEL_GROUPS)
    async with RewardClient(url, retry=NO_RETRY) as client:

        async def one(request: ScoreRequest) -> list[float | None]:
            try:
                async with slots:
                    response = await client.score(request)
            except InfrastructureError:
                return [None] * len(request.answers)
            return [r.value if isinstance(r, Scored) else None for r in response.rewards]

        return list(await asyncio.gather(*(one(request) for request in requests)))


@dataclass(frozen=True)
class Practice:
    """The effect of a treatment of failures on the samples it trains on.

    `mean_error` compares with the advantages of the whole group without failures: a smaller group
    has another mean, whichever samples are missing. `pushed_down` is the share of right answers
    with a negative advantage.
    """

    num_trained_on: int
    mean_error: float
    wrong_sign: float
    pushed_down: float


@dataclass(frozen=True)
class Damage:
    """The effect of a share of failing calls on advantages.

    `largest_difference` is between the advantages of the surviving samples and of the same samples
    in a group without the failed samples.
    """

    share: float
    num_samples: int
    num_failed: int
    largest_difference: float
    left_out: Practice
    zeros: Practice


def damage(share: float, true: Rewards, seen: Rewards) -> Damage:
    """Compare the observed rewards with the true rewards, sample by sample; return the damage."""
    never_there = [
        [t for t, s in zip(*pair, strict=True) if s is not None]
        for pair in zip(true, seen, strict=True)
    ]
    survivors = [a for group in _advantages(seen) for a in group if a is not None]
    expected = [a for group in _advantages(never_there) for a in group if a is not None]
    return Damage(
        share=share,
        num_samples=sum(map(len, seen)),
        num_failed=sum(r is None for group in seen for r in group),
        largest_difference=max(abs(a - b) for a, b in zip(survivors, expected, strict=True)),
        left_out=_practice(true, seen),
        zeros=_practice(true, [[r or 0.0 for r in group] for group in seen]),
    )


def _practice(true: Rewards, used: Rewards) -> Practice:
    should = [a or 0.0 for group in _advantages(true) for a in group]
    got = [a for group in _advantages(used) for a in group]
    right = [reward == 1.0 for group in true for reward in group]
    trained = [(g, s) for g, s in zip(got, should, strict=True) if g is not None]
    return Practice(
        num_trained_on=len(trained),
        mean_error=statistics.fmean(abs(g - s) for g, s in trained),
        wrong_sign=statistics.fmean(g * s < 0 for g, s in trained),
        pushed_down=statistics.fmean(
            g < 0 for g, is_right in zip(got, right, strict=True) if is_right and g is not None
        ),
    )


def _advantages(rewards: Rewards) -> list[list[float | None]]:
    return advantages([GroupRewards(group) for group in rewards])


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an app on a free port of loopback; yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started:
        if time.monotonic() > deadline or not thread.is_alive():
            raise SystemExit("a service did not start")
        time.sleep(0.01)
    yield "http://{}:{}".format(*listener.getsockname())
    server.should_exit = True
    thread.join(timeout=30)


def reward_of(sandbox: str, judge: str) -> FastAPI:
    """Return a reward service with a short retry budget, since failed calls fail for good."""
    settings = RewardSettings(sandbox_url=sandbox, judge_url=judge, reward_retry_budget_s=0.2)
    return create_reward(settings)


def draw(found: Sequence[Damage]) -> None:
    """Draw the errors, and the share of right answers pushed down, by the share of failures."""
    import matplotlib.pyplot as plt

    figure, (errors, wronged) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    x = [100 * one.share for one in found]
    for name, label, colour in (
        ("zeros", "read as zeros", "#dc2626"),
        ("left_out", "left out", "#2563eb"),
    ):
        practices = [getattr(one, name) for one in found]
        style = {"marker": "o", "color": colour, "label": label}
        errors.plot(x, [one.mean_error for one in practices], **style)
        wronged.plot(x, [100 * one.pushed_down for one in practices], **style)
    errors.set_ylabel("mean error of an advantage")
    wronged.set_ylabel("% of right answers trained away from")
    for ax in (errors, wronged):
        ax.set_xlabel("% of sandbox and judge calls that fail")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(_FIGURE, dpi=150)


def run(num_groups: int) -> list[Damage]:
    """Return the damage at all shares, each with its own reward service on the same neighbours."""
    requests = make_requests(num_groups)
    found = []
    with (
        served(create_sandbox(SandboxSettings())) as sandbox,
        served(create_judge(JudgeSettings())) as judge,
    ):
        with served(reward_of(sandbox, judge)) as url:
            true = asyncio.run(score(url, requests))
        for share in SHARES:
            with (
                served(flaky(sandbox, share)) as bad_sandbox,
                served(flaky(judge, share)) as bad_judge,
                served(reward_of(bad_sandbox, bad_judge)) as url,
            ):
                found.append(damage(share, true, asyncio.run(score(url, requests))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=200)
    found = run(parser.parse_args().groups)
    print(
        "| calls that fail | samples lost | left out: largest difference | mean error, left out "
        "and as zeros | wrong sign | right answers pushed down |\n|---|---|---|---|---|---|"
    )
    for one in found:
        ours, zeros = one.left_out, one.zeros
        print(
            f"| {one.share:.0%} | {one.num_failed} of {one.num_samples} "
            f"| {one.largest_difference:g} | {ours.mean_error:.3f}, {zeros.mean_error:.3f} "
            f"| {ours.wrong_sign:.1%}, {zeros.wrong_sign:.1%} "
            f"| {ours.pushed_down:.1%}, {zeros.pushed_down:.1%} |"
        )
    _RESULT.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    draw(found)


if __name__ == "__main__":
    main()
