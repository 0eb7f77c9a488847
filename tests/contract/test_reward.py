"""Reward over HTTP with the real sandbox and judge behind it, and with neither."""

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from assay_judge.app import create_app as create_judge
from assay_judge.settings import JudgeSettings
from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import RewardClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, InvalidInput, NotFound
from assay_shared.telemetry.context import request_scope
from assay_shared.telemetry.logs import JsonFormatter
from assay_shared.types import (
    AssertCase,
    CallCase,
    FailureClass,
    Reward,
    Scored,
    ScoreRequest,
    Status,
    Unscored,
)
from tests.conftest import Serve, wait_until
from tests.support.fakes import make_task

NOWHERE = "http://127.0.0.1:9"
DOUBLE = make_task(
    "double", tests=tuple(CallCase(function="f", args=(x,), expected=2 * x) for x in (0, 1, 2))
)


@pytest.fixture
def url(serve: Serve) -> str:
    """The reward service with its neighbours."""
    sandbox = serve(create_sandbox(SandboxSettings()))
    judge = serve(create_judge(JudgeSettings()))
    return serve(create_reward(RewardSettings(sandbox_url=sandbox, judge_url=judge)))


async def score(url: str, request: ScoreRequest) -> list[Reward]:
    async with RewardClient(url, retry=NO_RETRY) as client:
        return list((await client.score(request)).rewards)


def values(rewards: list[Reward]) -> list[float | None]:
    return [r.value if isinstance(r, Scored) else None for r in rewards]


@pytest.mark.slow
async def test_programs_are_run_and_scored(url: str) -> None:
    answers = (
        "def f(x):\n    return 2 * x\n",
        "def f(x):\n    return x\n",
        "def f(x):\n    return x * x * 2\n",
        "def f(:",
        "Sure:\n```python\ndef f(x): return x + x\n```",
    )
    rewards = await score(url, ScoreRequest(task=DOUBLE, answers=answers))
    assert values(rewards) == [1.0, pytest.approx(1 / 3), pytest.approx(2 / 3), 0.0, 1.0]
    outcomes = [r.outcome for r in rewards if isinstance(r, Scored)]
    assert outcomes[3] is Status.SYNTAX_ERROR
    rewards = await score(url, ScoreRequest(task=DOUBLE, answers=answers, rubric="code.sparse"))
    assert values(rewards) == [1.0, 0.0, 0.0, 0.0, 1.0]


async def test_numbers_are_verified_and_words_are_judged(url: str) -> None:
    task = make_task("sum", rubric="math", gold="27", tests=())
    assert values(await score(url, ScoreRequest(task=task, answers=("27", "26", "27.0")))) == [
        1,
        0,
        1,
    ]
    task = make_task("colour", rubric="qa", gold="green", tests=())
    assert values(await score(url, ScoreRequest(task=task, answers=("Green.", "red")))) == [1, 0]


@pytest.mark.slow
async def test_with_nobody_there_answers_fail_and_none_is_zero(serve: Serve) -> None:
    """Within a second, with advice."""
    url = serve(create_reward(RewardSettings(sandbox_url=NOWHERE, judge_url=NOWHERE)))
    colour = make_task("colour", rubric="qa", gold="green", tests=())
    for task, service in ((DOUBLE, "sandbox"), (colour, "judge")):
        started = time.monotonic()
        rewards = await score(url, ScoreRequest(task=task, answers=("a", "b")))
        assert time.monotonic() - started < 1.5
        for reward in rewards:
            assert isinstance(reward, Unscored)
            assert f"no {service} service at {NOWHERE}" in reward.failure.message
            assert f"ASSAY_{service.upper()}_URL" in reward.failure.message
            assert reward.failure.failure_class is FailureClass.NETWORK
            assert reward.failure.service == service
            assert reward.failure.retryable


#: A loop: it can only be run where the program is.
LOOP = AssertCase(code="for n in range(3):\n    assert f(n) == 2 * n\n")
UNFORGEABLE = """
name: unforgeable
description: Passes tests that no program can forge.
components: [{verifier: accepted, weight: 1, options: {forgeable: false}}]
"""


#: Only the program's process has what was printed.
PRINTED = AssertCase(
    code="import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n"
    "    print(f(1))\nassert out.getvalue() == '2\\n'"
)


@pytest.mark.slow
async def test_forgeable_tests_give_no_reward_where_they_are_refused(
    serve: Serve, tmp_path: Path
) -> None:
    (tmp_path / "unforgeable.yaml").write_text(UNFORGEABLE)
    sandbox = serve(create_sandbox(SandboxSettings()))
    url = serve(create_reward(RewardSettings(sandbox_url=sandbox, reward_rubrics=tmp_path)))
    task = make_task("printed", tests=(PRINTED,))
    right = ("def f(x):\n    return 2 * x\n",)
    assert values(await score(url, ScoreRequest(task=task, answers=right))) == [1.0]
    request = ScoreRequest(task=task, answers=right, rubric="unforgeable")
    (refused,) = await score(url, request)
    assert values([refused]) == [0.0]
    assert "1 ungradable: " in str(refused)
    split = request.model_copy(update={"task": DOUBLE})
    assert values(await score(url, split)) == [1.0]


async def test_wrong_requests_name_the_field(url: str) -> None:
    with pytest.raises(NotFound, match="rubric: no rubric is called 'nonsense'"):
        await score(url, ScoreRequest(task=DOUBLE, answers=("a",), rubric="nonsense"))
    with pytest.raises(InvalidInput, match="task.tests: task t has no tests"):
        await score(url, ScoreRequest(task=make_task(tests=()), answers=("a",)))
    with pytest.raises(InvalidInput, match="answers: .*at least 1 item"):
        await score(url, ScoreRequest.model_construct(None, task=DOUBLE, answers=()))


async def post(url: str, body: object) -> tuple[int, dict[str, Any]]:
    """A request as a stranger writes it."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/score", json=body) as response,
    ):
        return response.status, await response.json()


async def test_an_answer_carries_its_length(serve: Serve) -> None:
    url = serve(create_reward(RewardSettings(sandbox_url=NOWHERE, judge_url=NOWHERE)))
    answers = [{"text": "2", "num_tokens": 18432}, {"text": ["3", "2"], "num_tokens": 1}]
    body = {"rubric": "math.dapo", "task": {"reference": "2"}, "answers": answers}
    status, found = await post(url, body)
    assert (status, [one["value"] for one in found["rewards"]]) == (200, [0.75, 1.0])
    status, found = await post(url, body | {"answers": [*answers, "2"]})
    assert (status, found["error"]["param"]) == (422, "answers.2.num_tokens")
    assert found["error"]["message"] == "overlong needs the length of each answer"


@pytest.mark.slow
async def test_an_answer_tells_whether_it_was_cut_off(url: str) -> None:
    """A truncated program has no reward; a broken program has the lowest."""
    answers = ["def f(:", *({"text": "def f(:", "truncated": cut} for cut in (True, False))]
    task = DOUBLE.model_dump(mode="json")
    status, found = await post(url, {"rubric": "code.rltf", "task": task, "answers": answers})
    assert (status, [one.get("value") for one in found["rewards"]]) == (200, [-1.0, None, -1.0])
    assert found["rewards"][1]["failure"]["failure_class"] == FailureClass.BUDGET


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (7, "answers.1"),
        ({"num_tokens": 1}, "answers.1.text"),
        ({"text": "2", "num_tokens": -1}, "answers.1.num_tokens"),
        ({"text": "2", "num_tokens": 1.5}, "answers.1.num_tokens"),
        ({"text": "2", "truncated": "perhaps"}, "answers.1.truncated"),
        ({"text": "2", "turns": ["2"]}, "answers.1.turns"),
    ],
)
async def test_what_is_no_answer_is_refused_by_its_field(
    serve: Serve, answer: object, field: str
) -> None:
    url = serve(create_reward(RewardSettings(sandbox_url=NOWHERE, judge_url=NOWHERE)))
    body = {"rubric": "math", "task": {"reference": "2"}, "answers": ["2", answer]}
    status, found = await post(url, body)
    assert (status, found["error"]["param"]) == (422, field)


@pytest.mark.parametrize(("name", "value"), [("num_tokens", [1]), ("truncated", [False])])
async def test_a_length_that_is_not_its_answers_is_refused(
    serve: Serve, name: str, value: object
) -> None:
    url = serve(create_reward(RewardSettings(sandbox_url=NOWHERE, judge_url=NOWHERE)))
    body = {"rubric": "math", "task": {"reference": "2"}, "answers": ["2"], name: value}
    status, found = await post(url, body)
    assert (status, found["error"]["param"]) == (422, name)


async def test_a_request_with_a_key_twice_is_refused_by_its_name(url: str) -> None:
    body = b'{"rubric":"math","task":{"reference":"2","reference":"3"},"answers":["2"]}'
    async with (
        aiohttp.ClientSession(headers={"content-type": "application/json"}) as session,
        session.post(f"{url}/v1/score", data=body) as response,
    ):
        assert response.status == 422
        error = (await response.json())["error"]
    assert error["param"] == "reference"
    assert "the key 'reference' twice" in error["message"]


async def test_rubrics_show_what_they_count(url: str) -> None:
    async with RewardClient(url) as client:
        rubrics = {rubric.name: rubric for rubric in await client.rubrics()}
    assert rubrics["code.blend"].shares == {"pass_ratio": 0.5, "accepted": 0.5}


class Lines(logging.Handler):
    """Log lines as the services would write them: ids are bound when a line is made."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seen: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(json.loads(JsonFormatter("any").format(record)))

    def ids_of(self, message: str) -> set[object]:
        return {line.get("request_id") for line in self.seen if line["message"] == message}


@pytest.mark.slow
async def test_a_request_id_travels_through_every_hop(url: str) -> None:
    lines = Lines()
    logger = logging.getLogger("assay_shared.service.middleware")
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        with request_scope("one-rollout"):
            await score(url, ScoreRequest(task=DOUBLE, answers=("def f(x): return 2 * x",)))
        wait_until(lambda: lines.ids_of("POST /v1/score 200"), "the log line of the score")
    finally:
        logger.removeHandler(lines)
        logger.setLevel(logging.NOTSET)
    for hop in ("POST /v1/score 200", "POST /v1/test 200"):
        assert lines.ids_of(hop) == {"one-rollout"}


def test_a_bad_rubric_folder_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: bad\n")
    with pytest.raises(ConfigError, match=r"bad\.yaml"):
        create_reward(RewardSettings(reward_rubrics=tmp_path))


@pytest.mark.slow
async def test_bombs_are_wrong_and_other_answers_do_not_wait_for_them(serve: Serve) -> None:
    url = serve(create_reward(RewardSettings(reward_answer_cpu_s=0.5)))
    reference = r"\boxed{x+1}"
    hard = make_task("hard", rubric="math", reference=reference, tests=())
    bombs = (
        r"\boxed{9^{9^{9^9}}}",
        r"\boxed{{{}}}".format("".join(rf"(\sqrt{{x+{n}}}+y)" for n in range(2, 30))),
        "\\boxed{" + "(" * 1_000_000,
        "!" * 2_000_000,
    )
    plain = make_task("plain", rubric="math", gold="27", tests=())
    began = time.monotonic()
    bombing = asyncio.create_task(score(url, ScoreRequest(task=hard, answers=bombs)))
    async with RewardClient(url, retry=NO_RETRY) as client:
        while not bombing.done():
            response = await client.score(ScoreRequest(task=plain, answers=("27", "26")))
            assert values(list(response.rewards)) == [1, 0]
            assert time.monotonic() - began < 60
    assert values(await bombing) == [0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.promise("overload is refused, and no client starves another")
async def test_a_batch_of_bombs_delays_no_other_request_and_ends_with_its_client(
    serve: Serve,
) -> None:
    url = serve(create_reward(RewardSettings(sandbox_url=NOWHERE, judge_url=NOWHERE)))
    task = make_task("sum", rubric="math", gold="3", tests=())
    bombs = tuple(rf"\boxed{{\sum_{{k=1}}^{{999}} \frac{{1}}{{k^{{99}}+{n}}}}}" for n in range(256))
    slow = ScoreRequest(task=task, answers=(r"\boxed{\cos^2(2y)+\sin^2(2y)+2}",))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        body = ScoreRequest(task=task, answers=bombs).model_dump(mode="json")
        batch = asyncio.create_task(session.post(f"{url}/v1/score", json=body))
        await asyncio.sleep(1)
        async with asyncio.timeout(60):  # the batch takes minutes
            assert values(await score(url, slow)) == [1.0]
        batch.cancel()
        await asyncio.gather(batch, return_exceptions=True)

        async with asyncio.timeout(10):
            metrics = ""
            while 'status="499"' not in metrics:
                await asyncio.sleep(0.1)
                async with session.get(f"{url}/metrics") as response:
                    metrics = await response.text()


def test_a_setting_that_names_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file or folder .*none") as raised:
        create_reward(RewardSettings(reward_rubrics=tmp_path / "none"))
    assert raised.value.field == "ASSAY_REWARD_RUBRICS"
    with pytest.raises(ConfigError, match="there is no file .*none") as raised:
        create_judge(JudgeSettings(judge_config=tmp_path / "none"))
    assert raised.value.field == "ASSAY_JUDGE_CONFIG"
    with pytest.raises(ConfigError, match="there is no file") as raised:
        create_reward(RewardSettings(executor_config=tmp_path / "none"))
    assert raised.value.field == "ASSAY_EXECUTOR_CONFIG"
