"""The judge over HTTP, with a real misbehaving upstream: never an invented verdict."""

import asyncio
import json
import random
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import yaml

from assay_judge.app import create_app
from assay_judge.settings import JudgeSettings
from assay_shared.clients import JudgeClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.telemetry.context import log_fields
from assay_shared.types import (
    Abstention,
    Criterion,
    FailureClass,
    JudgeForm,
    JudgeRequest,
    JudgeResponse,
    Label,
    Verdict,
)
from tests.conftest import Serve
from tests.support.calibrations import calibrated
from tests.support.raw_upstream import BREAKS, raw_upstream
from tests.support.upstream import Upstream, says, verdict
from tests.support.valkey import TestValkey

REQUEST = JudgeRequest(question="What is 6 times 7?", answers=("42", "41"), reference="42")
ONE = JudgeRequest(question="q", answers=("a",), reference="r")


def config_file(folder: Path, *chain: dict[str, object]) -> Path:
    path = folder / "judge.yaml"
    path.write_text(yaml.safe_dump({"chain": list(chain)}))
    return path


def provider(url: str, name: str = "primary", **changes: object) -> dict[str, object]:
    basics = {"kind": "openai", "name": name, "base_url": f"{url}/v1", "model": "m"}
    return basics | {"timeout_s": 1.0, "attempts": 2} | changes


async def ask(serve: Serve, path: Path | None, request: JudgeRequest = REQUEST) -> list[object]:
    url = serve(create_app(JudgeSettings(judge_config=path)))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        return list((await client.judge(request)).judgements)


async def test_without_any_llm_the_reference_decides(serve: Serve) -> None:
    judgements = await ask(serve, None)
    assert [j.label for j in judgements if isinstance(j, Verdict)] == [
        Label.CORRECT,
        Label.INCORRECT,
    ]


async def test_a_model_is_asked_with_everything_it_needs(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-word")
    upstream = Upstream(verdict("CORRECT"))
    url = serve(upstream.app)
    path = config_file(tmp_path, provider(url, api_key_env="MY_KEY"))
    one = JudgeRequest(question="Q {x}", answers=("A",), reference=None)
    (judgement,) = await ask(serve, path, one)
    assert isinstance(judgement, Verdict)
    assert (judgement.judge, judgement.reason) == ("primary", "planted")
    assert judgement.template is not None
    assert upstream.tokens == ["Bearer secret-word"]
    prompt = json.dumps(upstream.requests[0]["messages"])
    assert "Q {x}" in prompt
    assert "(none is known)" in prompt


BAD_REPLIES = {
    "empty content": says(""),
    "null content": says(None),
    "cut off": says('{"verdict": "COR', "length"),
    "prose": says("I think it is correct."),
    "wrong schema": {"something": "else"},
    "no choices": {"choices": []},
    "null content with reasoning": says(None, "length", reasoning="thinking " * 50),
    "two objects": says('{"verdict": "CORRECT"} {"verdict": "INCORRECT"}'),
    "rate limit": 429,
    "rate limit with a time": (429, 0),
    "server error": 500,
    "bad gateway": 502,
    "bad request": 400,
    "wrong key": 401,
    "silence": "slow",
}


@pytest.mark.parametrize("reply", BAD_REPLIES.values(), ids=BAD_REPLIES)
@pytest.mark.slow
@pytest.mark.promise("a failure is never a score")
async def test_a_provider_that_fails_never_yields_a_verdict(
    serve: Serve, tmp_path: Path, reply: object
) -> None:
    upstream = Upstream(reply)
    path = config_file(tmp_path, provider(serve(upstream.app)))
    judgements = await ask(serve, path)
    assert len(judgements) == 2
    for judgement in judgements:
        assert isinstance(judgement, Abstention)
        assert judgement.failure.failure_class is FailureClass.JUDGE
        assert judgement.failure.message.startswith("primary: ")


@pytest.mark.parametrize("reply", BAD_REPLIES.values(), ids=BAD_REPLIES)
@pytest.mark.slow
async def test_the_next_provider_judges_the_whole_group(
    serve: Serve, tmp_path: Path, reply: object
) -> None:
    failing = Upstream(verdict("CORRECT"), reply)  # one answer is judged, the other is not
    path = config_file(tmp_path, provider(serve(failing.app), attempts=1), {"kind": "reference"})
    judgements = await ask(serve, path)
    assert [j.judge for j in judgements if isinstance(j, Verdict)] == ["reference"] * 2


async def test_a_bad_reply_is_asked_again_and_differently(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(says(None), verdict("INCORRECT"))
    path = config_file(tmp_path, provider(serve(upstream.app), attempts=3))
    one = JudgeRequest(question="q", answers=("a",), reference="r")
    (judgement,) = await ask(serve, path, one)
    assert isinstance(judgement, Verdict)
    assert judgement.label is Label.INCORRECT
    first, second = upstream.requests
    assert second["max_tokens"] == 2 * first["max_tokens"]  # type: ignore[operator]
    assert first["seed"] != second["seed"]


async def test_reasoning_that_used_up_the_tokens_is_lowered(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(
        says(None, "length", "hm " * 99), says("{", "length"), says("prose"), verdict("CORRECT")
    )
    basics = provider(serve(upstream.app), reasoning_effort="high", max_tokens=100, attempts=4)
    path = config_file(tmp_path, basics)
    (judgement,) = await ask(serve, path, ONE)
    assert isinstance(judgement, Verdict)
    sent = [(r["max_tokens"], r["reasoning_effort"], r["temperature"]) for r in upstream.requests]
    assert sent == [
        (100, "high", 0.0), (200, "medium", 0.0), (400, "low", 0.0), (400, "low", 0.7),
    ]  # fmt: skip


async def test_more_tokens_than_the_endpoint_allows_are_taken_back(
    serve: Serve, tmp_path: Path
) -> None:
    upstream = Upstream(says("{", "length"), 400, verdict("CORRECT"))
    path = config_file(tmp_path, provider(serve(upstream.app), max_tokens=100, attempts=3))
    (judgement,) = await ask(serve, path, ONE)
    assert isinstance(judgement, Verdict)
    assert [r["max_tokens"] for r in upstream.requests] == [100, 200, 100]


@pytest.mark.slow
async def test_a_rate_limit_is_waited_for_as_long_as_it_says(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream((429, 1), verdict("CORRECT"))
    path = config_file(tmp_path, provider(serve(upstream.app), timeout_s=10.0))
    started = time.monotonic()
    (judgement,) = await ask(serve, path, ONE)
    assert isinstance(judgement, Verdict)
    assert time.monotonic() - started >= 1.0
    assert len(upstream.requests) == 2


async def test_a_wrong_request_is_not_sent_again(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(401)
    path = config_file(tmp_path, provider(serve(upstream.app), attempts=5))
    (judgement,) = await ask(serve, path, ONE)
    assert isinstance(judgement, Abstention)
    assert not judgement.failure.retryable
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.slow
async def test_a_broken_connection_is_a_failure_and_the_next_one_judges(
    serve: Serve, tmp_path: Path, how: str
) -> None:
    async with raw_upstream(how) as url:
        broken = provider(url, timeout_s=0.5)
        (judgement,) = await ask(serve, config_file(tmp_path, broken), ONE)
        assert isinstance(judgement, Abstention), how
        assert judgement.failure.retryable
        (judgement,) = await ask(serve, config_file(tmp_path, broken, {"kind": "reference"}), ONE)
        assert isinstance(judgement, Verdict)
        assert judgement.judge == "reference"


@pytest.mark.slow
async def test_with_all_down_every_answer_fails_in_time_and_recovery_is_noticed(
    serve: Serve, tmp_path: Path
) -> None:
    upstream = Upstream(500)
    chain = provider(serve(upstream.app), open_after=4, cooldown_s=1.0, attempts=3)
    url = serve(create_app(JudgeSettings(judge_config=config_file(tmp_path, chain))))
    requests = [JudgeRequest(question=f"q{i}", answers=("a",), reference="b") for i in range(40)]
    async with JudgeClient(url, retry=NO_RETRY) as client:
        started = time.monotonic()
        responses = await asyncio.gather(*(client.judge(one) for one in requests))
        assert time.monotonic() - started < 5.0
        judgements = [one for response in responses for one in response.judgements]
        assert all(isinstance(one, Abstention) and one.failure.retryable for one in judgements)
        (judgement,) = (await client.judge(ONE)).judgements
        assert isinstance(judgement, Abstention)
        assert "failures in a row" in judgement.failure.message
        assert (await client.health())["open_circuits"] == ["primary"]
        num_sent = len(upstream.requests)
        upstream.script = [verdict("CORRECT")]
        await asyncio.sleep(1.1)
        (judgement,) = (await client.judge(ONE)).judgements
        assert isinstance(judgement, Verdict)
        assert len(upstream.requests) == num_sent + 1
        assert (await client.health())["open_circuits"] == []


async def test_one_in_eight_empty_replies_costs_no_verdict(serve: Serve, tmp_path: Path) -> None:
    """13% of the primary's replies are empty: each answer is judged right, by it or the next."""
    chance = random.Random(3)

    def reply(asked: dict[str, object]) -> dict[str, object]:
        if chance.random() < 0.13:
            return says(None if chance.random() < 0.5 else "")
        return verdict("CORRECT" if "right" in json.dumps(asked["messages"]) else "INCORRECT")

    def healthy(asked: dict[str, object]) -> dict[str, object]:
        return verdict("CORRECT" if "right" in json.dumps(asked["messages"]) else "INCORRECT")

    primary, fallback = Upstream(reply), Upstream(healthy)
    path = config_file(
        tmp_path,
        provider(serve(primary.app), timeout_s=20.0, attempts=2),
        provider(serve(fallback.app), "fallback", timeout_s=20.0),
    )
    url = serve(create_app(JudgeSettings(judge_config=path)))
    requests = [
        JudgeRequest(question=f"q{i}", answers=("right", "bad", "right", "bad")) for i in range(250)
    ]
    async with JudgeClient(url, retry=NO_RETRY) as client:
        responses = await together_in_parts([client.judge(one) for one in requests])
    judgements = [one for response in responses for one in response.judgements]
    labels = [one.label if isinstance(one, Verdict) else None for one in judgements]
    right = [Label.CORRECT, Label.INCORRECT] * 500
    assert sum(a == b for a, b in zip(labels, right, strict=True)) >= 999
    assert all(label in (None, r) for label, r in zip(labels, right, strict=True))
    for response in responses:
        assert len({one.judge for one in response.judgements if isinstance(one, Verdict)}) == 1


async def together_in_parts(work: list[Coroutine[Any, Any, JudgeResponse]]) -> list[JudgeResponse]:
    done: list[JudgeResponse] = []
    for start in range(0, len(work), 50):
        done += await asyncio.gather(*work[start : start + 50])
    return done


async def test_the_same_question_is_sent_once(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(verdict("CORRECT"))
    chain = config_file(tmp_path, provider(serve(upstream.app)))
    url = serve(create_app(JudgeSettings(judge_config=chain)))
    async with JudgeClient(url) as client:
        await asyncio.gather(*(client.judge(ONE) for _ in range(5)))
        await client.judge(ONE)
        assert len(upstream.requests) == 1
        await client.judge(ONE.model_copy(update={"answers": ("another",)}))
        assert len(upstream.requests) == 2


async def test_a_failure_is_never_remembered(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(says(""), verdict("CORRECT"))
    chain = config_file(tmp_path, provider(serve(upstream.app), attempts=1))
    url = serve(create_app(JudgeSettings(judge_config=chain)))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        kinds = [type((await client.judge(ONE)).judgements[0]) for _ in range(2)]
    assert kinds == [Abstention, Verdict]


@pytest.mark.rule("a judge that says nothing has given no verdict, and is asked differently")
async def test_replies_in_vain_are_on_the_bill_and_kept_ones_are_not(
    serve: Serve, tmp_path: Path
) -> None:
    upstream = Upstream(says(""), verdict("CORRECT"))
    priced = provider(serve(upstream.app), price={"input_per_million": 1e4})
    url = serve(create_app(JudgeSettings(judge_config=config_file(tmp_path, priced))))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        asked_twice = await client.judge(ONE)
        from_the_cache = await client.judge(ONE)
    first, second = (cast(Verdict, one.judgements[0]) for one in (asked_twice, from_the_cache))
    assert first.model_copy(update={"history": second.history}) == second
    assert [one.history[0].num_requests for one in (first, second)] == [2, 0]
    assert (asked_twice.cost.money, from_the_cache.cost.money) == (2.0, 0.0)


async def test_a_ceiling_answers_with_the_budget(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(verdict("CORRECT"))
    priced = provider(serve(upstream.app), price={"input_per_million": 1e4})
    path = tmp_path / "judge.yaml"
    path.write_text(yaml.safe_dump({"chain": [priced], "ceiling": 2.5}))
    url = serve(create_app(JudgeSettings(judge_config=path)))
    kinds, costs = [], []
    async with JudgeClient(url, retry=NO_RETRY) as client:
        for i in range(5):  # one costs 100 tokens, so 1.00
            request = JudgeRequest(question=f"q{i}", answers=("a",), run="r")
            judged = await client.judge(request)
            (one,) = judged.judgements
            costs.append(judged.cost)
            kinds.append("judged" if isinstance(one, Verdict) else one.failure.failure_class)
        assert kinds == ["judged"] * 3 + [FailureClass.BUDGET] * 2
        assert [cost.money for cost in costs] == [1.0] * 3 + [0.0] * 2
        assert costs[0].judge_tokens >= 100
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/v1/spending", params={"run": "r"}) as response:
            spent = await response.json()
        assert (spent["num_requests"], float(spent["money"])) == ({"primary": 3}, 3.0)
        async with session.get(f"{url}/v1/spending", params={"run": "another"}) as response:
            assert (await response.json())["num_requests"] == {}


async def test_the_other_forms_over_http(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(says('{"correctness": 5}'))
    chain = config_file(tmp_path, provider(serve(upstream.app), structured=True))
    criterion = Criterion(name="correctness", description="Is it right?")
    graded = JudgeRequest(
        question="q", answers=("a",), form=JudgeForm.GRADED, criteria=(criterion,)
    )
    (judgement,) = await ask(serve, chain, graded)
    assert isinstance(judgement, Verdict)
    assert (judgement.score, judgement.grades) == (1.0, {"correctness": 5})
    sent = upstream.requests[0]["response_format"]
    assert sent["json_schema"]["schema"]["required"] == ["correctness", "reason"]  # type: ignore[index]
    upstream.script = [says('{"better": "FIRST"}'), says('{"better": "SECOND"}')]
    pair = JudgeRequest(question="q", answers=("a", "b"), form=JudgeForm.PAIRWISE)
    judgements = await ask(serve, chain, pair)
    assert {one.score for one in judgements if isinstance(one, Verdict)} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"question": "q", "answers": ()}, "answers: .*at least 1 item"),
        ({"answers": ("a",)}, "question: Field required"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(
    serve: Serve, body: dict[str, object], message: str
) -> None:
    url = serve(create_app(JudgeSettings()))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        with pytest.raises(InvalidInput, match=message):
            await client.judge(JudgeRequest.model_construct(None, **body))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ([], "chain: .*at least 1 item"),
        ([{"kind": "opnai"}], "chain.0: .*'openai', 'reference'"),
        ([{"kind": "openai", "name": "a", "model": "m"}], "chain.0.base_url: missing"),
        ([{"kind": "reference", "nme": "x"}], "chain.0.nme: unknown key"),
    ],
)
def test_a_bad_configuration_stops_the_start(
    tmp_path: Path, chain: list[dict[str, object]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        create_app(JudgeSettings(judge_config=config_file(tmp_path, *chain)))


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("primary", "none.json", "there is no calibration .*none.json"),
        ("primary", "judge.yaml", "judge.yaml is not a calibration"),
        ("other", "calibration.json", "judge 'other' was not calibrated"),
    ],
)
def test_a_requirement_that_nothing_can_meet_stops_the_start(
    tmp_path: Path, name: str, file: str, message: str
) -> None:
    calibrated(tmp_path, attempts=2)
    required = {"file": str(tmp_path / file), "minimum_kappa": 0.6}
    chain = config_file(tmp_path, provider("http://127.0.0.1:1", requirement=required, name=name))
    with pytest.raises(ConfigError, match=message):
        create_app(JudgeSettings(judge_config=chain))


async def test_a_key_is_nowhere_to_be_read(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-never-to-be-seen"
    (tmp_path / "key").write_text(secret + "\n")
    upstream = Upstream(401, 500, says(""), verdict("CORRECT"))
    chain = provider(serve(upstream.app), api_key_file=str(tmp_path / "key"), attempts=4)
    url = serve(create_app(JudgeSettings(judge_config=config_file(tmp_path, chain))))
    caplog.set_level("DEBUG")
    seen = []
    async with JudgeClient(url, retry=NO_RETRY) as client:
        for _ in range(2):
            seen.append((await client.judge(ONE)).model_dump_json())
        seen.append(json.dumps(await client.health()))
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as response:
        seen.append(await response.text())
    assert set(upstream.tokens) == {f"Bearer {secret}"}
    assert all(secret not in text for text in [*seen, caplog.text])


@pytest.mark.slow
async def test_work_ends_with_the_connection_of_who_asked(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream("slow")
    chain = provider(serve(upstream.app), timeout_s=10.0, limits={"concurrency": 1})
    url = serve(create_app(JudgeSettings(judge_config=config_file(tmp_path, chain))))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        gone = asyncio.create_task(client.judge(ONE))
        await asyncio.sleep(0.5)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        upstream.script = [verdict("CORRECT")]
        started = time.monotonic()
        another = ONE.model_copy(update={"answers": ("b",)})
        (judgement,) = (await client.judge(another)).judgements
        assert isinstance(judgement, Verdict)
        assert time.monotonic() - started < 2.0


async def test_a_judge_that_was_not_measured_well_enough_is_passed_over(
    serve: Serve, tmp_path: Path
) -> None:
    upstream = Upstream(verdict("CORRECT"))
    required = {"file": str(calibrated(tmp_path, attempts=2)), "minimum_kappa": 0.6}
    chain = config_file(
        tmp_path, provider(serve(upstream.app), requirement=required), {"kind": "reference"}
    )
    (judgement,) = await ask(serve, chain, ONE.model_copy(update={"domain": "law"}))
    assert isinstance(judgement, Verdict)
    assert judgement.judge == "reference"
    assert upstream.requests == []


async def test_replicas_share_limits_costs_and_replies(
    serve: Serve, tmp_path: Path, valkey: TestValkey
) -> None:
    upstream = Upstream(verdict("CORRECT"))
    priced = provider(serve(upstream.app), price={"input_per_million": 1e4})
    path = tmp_path / "judge.yaml"
    path.write_text(yaml.safe_dump({"chain": [priced], "ceiling": 1.5}))
    settings = JudgeSettings(judge_config=path, judge_shared="redis", redis_url=valkey.url)
    one, other = (serve(create_app(settings)) for _ in range(2))

    async def judge(url: str, answer: str) -> object:
        async with JudgeClient(url, retry=NO_RETRY) as client:
            request = ONE.model_copy(update={"answers": (answer,)})
            return (await client.judge(request)).judgements[0]

    assert isinstance(await judge(one, "a"), Verdict)
    assert isinstance(await judge(other, "a"), Verdict)
    assert len(upstream.requests) == 1  # the second replica knew the reply of the first
    assert isinstance(await judge(other, "b"), Verdict)
    spent = await judge(one, "c")
    assert isinstance(spent, Abstention)
    assert spent.failure.failure_class is FailureClass.BUDGET


async def test_a_provider_hears_nothing_of_runs_and_groups(serve: Serve, tmp_path: Path) -> None:
    upstream = Upstream(verdict("CORRECT"))
    url = serve(upstream.app)
    path = config_file(tmp_path, provider(url))
    with log_fields(run="secret", group="secret/1"):
        await ask(serve, path, ONE)
    assert upstream.headers
    assert not [one for one in upstream.headers if "baggage" in one or "traceparent" in one]
