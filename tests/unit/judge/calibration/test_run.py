"""Calibrations against real endpoints: what is recorded, what a requirement takes, what is kept."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from assay_judge.app import create_app
from assay_judge.calibration.run import run_calibration
from assay_judge.calibration_record import Calibration
from assay_judge.settings import JudgeSettings
from assay_shared.clients.http import NO_RETRY
from assay_shared.clients.judge import JudgeClient
from assay_shared.errors import BudgetExceeded, ConfigError, Conflict, JudgeFault
from assay_shared.runs.run_lock import held
from assay_shared.types import Abstention, JudgeRequest, Verdict
from tests.conftest import Serve
from tests.support.upstream import Upstream, says, verdict

NUM_QUESTIONS = 6


def fair(asked: Mapping[str, Any]) -> dict[str, object]:
    """Right about every answer, and sure of it."""
    prompt = str(asked["messages"])
    if "<first>" in prompt:
        first = prompt.index("right answer") < prompt.index("wrong answer")
        return says(json.dumps({"better": "FIRST" if first else "SECOND"}))
    return verdict("CORRECT" if "right answer" in prompt else "INCORRECT")


def write_rows(folder: Path, *more: dict[str, object]) -> Path:
    rows: list[dict[str, object]] = [
        {"id": f"{n}{label}", "question": f"Question {n}", "answer": text, "label": label}
        for n in range(NUM_QUESTIONS)
        for label, text in (("CORRECT", "right answer"), ("INCORRECT", "wrong answer"))
    ]
    path = folder / "examples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
    return path


def provider(url: str, **changes: object) -> dict[str, object]:
    return {"kind": "openai", "name": "j", "base_url": f"{url}/v1", "model": "mymodel"} | changes


def write_config(folder: Path, *chain: dict[str, object], **more: object) -> Path:
    path = folder / "judge.yaml"
    path.write_text(yaml.safe_dump({"chain": list(chain)} | more))
    return path


def judge_of(folder: Path, *chain: dict[str, object], **more: object) -> FastAPI:
    """Return the judge service with a chain."""
    return create_app(JudgeSettings(judge_config=write_config(folder, *chain, **more)))


def requirement(file: Path) -> dict[str, object]:
    return {"file": str(file), "minimum_kappa": 0.6}


async def calibrate(folder: Path, config: Path, *, num_repeats: int = 1) -> Path:
    """Calibrate on the rows of the folder; return the calibration's file."""
    output = folder / "report"
    await asyncio.to_thread(
        run_calibration, folder / "examples.jsonl", output, config, num_repeats, False
    )
    return output / "calibration.json"


# The requirement


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({"model": "unrelated-7b"}, {}, 'model was "mymodel" and is "unrelated-7b"'),
        ({"structured": True}, {}, "structured was false and is true"),
        ({"reasoning_effort": "high"}, {}, 'reasoning_effort was null and is "high"'),
        ({"temperature": 0.5}, {}, "temperature was 0.0 and is 0.5"),
        ({"seed": 2}, {}, "seed was 1 and is 2"),
        ({"max_tokens": 64}, {}, "max_tokens was 512 and is 64"),
        ({"max_tokens_limit": 600}, {}, "max_tokens_limit was 8192 and is 600"),
        ({"attempts": 1}, {}, "attempts was 4 and is 1"),
        ({"reason_first": True}, {}, "reason_first was false and is true"),
        ({"revision": "b"}, {}, 'revision was "" and is "b"'),
        ({"served_as": ["unrelated-7b"]}, {}, "served_as differs"),
        ({"extra_body": {"top_p": 0.5}}, {}, "extra_body differs"),
        ({}, {"voting": {"votes": 3}}, "voting differs"),
        (
            {"model": "unrelated-7b", "structured": True},
            {},
            'model was "mymodel" and is "unrelated-7b"; structured was false and is true',
        ),
    ],
)
async def test_a_calibration_of_other_settings_stops_the_start(
    serve: Serve,
    tmp_path: Path,
    changes: dict[str, object],
    more: dict[str, object],
    message: str,
) -> None:
    write_rows(tmp_path)
    url = serve(Upstream(fair).app)
    file = await calibrate(tmp_path, write_config(tmp_path, provider(url)))
    required = requirement(file)
    served = provider(url, requirement=required, **changes)
    with pytest.raises(ConfigError, match=f"another judge 'j' .*: {message} .calibrate it again"):
        judge_of(tmp_path, served, **more)


async def test_a_replica_with_other_limits_may_serve(serve: Serve, tmp_path: Path) -> None:
    write_rows(tmp_path)
    file = await calibrate(tmp_path, write_config(tmp_path, provider(serve(Upstream(fair).app))))
    replica = provider(
        serve(Upstream(fair).app),
        requirement=requirement(file),
        timeout_s=5.0,
        limits={"concurrency": 2},
        price={"input_per_million": 1},
        open_after=2,
        cooldown_s=1.0,
    )
    url = serve(judge_of(tmp_path, replica))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        request = JudgeRequest(question="Question", answers=("right answer",))
        (judgement,) = (await client.judge(request)).judgements
    assert isinstance(judgement, Verdict)
    assert judgement.judge == "j"


async def test_a_calibration_of_a_judge_without_a_model_is_not_one_of_a_model(
    serve: Serve, tmp_path: Path
) -> None:
    rows = write_rows(tmp_path).read_text().splitlines()
    known = [json.loads(row) | {"reference": "right answer"} for row in rows]
    (tmp_path / "examples.jsonl").write_text("\n".join(map(json.dumps, known)))
    config = write_config(tmp_path, {"kind": "reference", "name": "j"})
    file = await calibrate(tmp_path, config)
    served = provider("http://127.0.0.1:1", requirement=requirement(file))
    with pytest.raises(ConfigError, match='kind was "reference" and is "openai"'):
        judge_of(tmp_path, served)


@pytest.mark.parametrize("value", [float("nan"), 5, -2, "0.9", True])
async def test_a_kappa_that_is_none_qualifies_nobody(
    serve: Serve, tmp_path: Path, value: object
) -> None:
    write_rows(tmp_path)
    url = serve(Upstream(fair).app)
    file = await calibrate(tmp_path, write_config(tmp_path, provider(url)))
    changed = json.loads(file.read_text())
    changed["judges"][0]["overall"]["kappa"]["value"] = value
    file.write_text(json.dumps(changed))
    with pytest.raises(ConfigError, match=r"overall\.kappa\.value"):
        judge_of(tmp_path, provider(url, requirement=requirement(file)))


async def test_a_date_without_a_time_zone_is_refused_at_the_start(
    serve: Serve, tmp_path: Path
) -> None:
    write_rows(tmp_path)
    url = serve(Upstream(fair).app)
    file = await calibrate(tmp_path, write_config(tmp_path, provider(url)))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"created": "2026-11-01T00:00:00"}))
    with pytest.raises(ConfigError, match="created"):
        judge_of(tmp_path, provider(url, requirement=requirement(file)))


async def test_further_fields_of_requests_are_recorded_as_a_hash(
    serve: Serve, tmp_path: Path
) -> None:
    write_rows(tmp_path)
    url = serve(Upstream(fair).app)
    chain = provider(url, extra_body={"user": {"b": "secret-word", "a": 1}})
    file = await calibrate(tmp_path, write_config(tmp_path, chain))
    for kept in file.parent.glob("*.*"):
        assert kept.is_dir() or b"secret-word" not in kept.read_bytes()
    required = requirement(file)
    same = provider(url, extra_body={"user": {"a": 1, "b": "secret-word"}}, requirement=required)
    judge_of(tmp_path, same)
    other = provider(url, extra_body={"user": {"a": 1, "b": "other-word"}}, requirement=required)
    with pytest.raises(ConfigError, match="one: extra_body differs .calibrate"):
        judge_of(tmp_path, other)


async def test_a_file_without_the_settings_asks_for_another_calibration(
    serve: Serve, tmp_path: Path
) -> None:
    write_rows(tmp_path)
    url = serve(Upstream(fair).app)
    file = await calibrate(tmp_path, write_config(tmp_path, provider(url)))
    old = json.loads(file.read_text())
    del old["judges"][0]["settings"]
    file.write_text(json.dumps(old))
    served = provider(url, requirement=requirement(file))
    with pytest.raises(ConfigError, match=r"it has no judges.0.settings \(calibrate again\)"):
        judge_of(tmp_path, served)


def doubtful(asked: Mapping[str, Any]) -> dict[str, object]:
    """Wrong at first and not certain; right in every further sample."""
    prompt, is_first = str(asked["messages"]), asked["temperature"] == 0
    label = "CORRECT" if ("right answer" in prompt) != is_first else "INCORRECT"
    confidence = 0.2 if is_first else 0.9
    return says(json.dumps({"verdict": label, "reason": "planted", "confidence": confidence}))


def sure(asked: Mapping[str, Any]) -> dict[str, object]:
    label = "CORRECT" if "right answer" in str(asked["messages"]) else "INCORRECT"
    return says(json.dumps({"verdict": label, "reason": "planted", "confidence": 0.9}))


@pytest.mark.parametrize("by", ["self", "panel"])
async def test_a_judge_that_votes_is_measured_with_its_votes(
    serve: Serve, tmp_path: Path, by: str
) -> None:
    write_rows(tmp_path)
    first = provider(serve(Upstream(doubtful).app))
    others = [provider(serve(Upstream(sure).app), name=name) for name in ("k", "l")]
    voting = {"voting": {"votes": 2, "by": by}}
    file = await calibrate(tmp_path, write_config(tmp_path, first, *others, **voting))
    measured = Calibration.read(file).judges[0]
    assert measured.overall.kappa is not None
    assert measured.overall.kappa.value == 1.0
    required = first | {"requirement": requirement(file)}
    url = serve(judge_of(tmp_path, required, *others, **voting))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        request = JudgeRequest(question="Question", answers=("right answer",))
        (judgement,) = (await client.judge(request)).judgements
    assert isinstance(judgement, Verdict)
    assert (judgement.judge, str(judgement.label)) == ("j", "CORRECT")
    others[0]["model"] = "unrelated-7b"
    changed = write_config(tmp_path, required, *others, **voting)
    if by == "panel":
        with pytest.raises(ConfigError, match="panel differs"):
            create_app(JudgeSettings(judge_config=changed))
    else:
        create_app(JudgeSettings(judge_config=changed))


# A judge that never answers

SECRET = "sk-never-to-be-seen"


class Echo(Upstream):
    """Refuses with a status, and repeats the caller's key."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self._status = status

    async def _answer(self, asked: dict[str, object]) -> Response:
        error = {"error": {"message": f"planted: bad key {self.tokens[-1]}"}}
        return JSONResponse(error, self._status)


Command = Callable[..., "subprocess.CompletedProcess[str]"]


def command_of(*more: str) -> list[str]:
    name = [sys.executable, "-m", "assay_shared.cli", "judge", "calibrate", "examples.jsonl"]
    return [*name, "--output", "report", "--config", "judge.yaml", "--repeats", "1", *more]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    def run(*more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command_of("--no-probes", *more),
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


BROKEN = {
    "a dead port": (None, "refused"),
    "a wrong key": (Echo(401), "401"),
    "a wrong address": (Echo(404), "404"),
    "a wrong model": (Upstream(verdict("CORRECT") | {"model": "other-7b"}), "other-7b"),
}


@pytest.mark.parametrize(("upstream", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_judge_that_never_answers_is_an_error_with_its_reason(
    serve: Serve, tmp_path: Path, command: Command, upstream: Upstream | None, reason: str
) -> None:
    write_rows(tmp_path)
    (tmp_path / "key").write_text(SECRET)
    url = "http://127.0.0.1:1" if upstream is None else serve(upstream.app)
    key = {"api_key_file": str(tmp_path / "key"), "attempts": 2}
    write_config(tmp_path, provider(url, **key))
    done = command()
    assert done.returncode == 1, done.stderr
    assert "first failure of judge 'j': " in done.stdout
    assert "error: judge 'j' gave no verdict on any of 12 examples; its first" in done.stderr
    assert reason in done.stdout.casefold()
    assert reason in done.stderr.casefold()
    assert SECRET not in done.stdout + done.stderr
    assert not (tmp_path / "report").exists()
    write_config(tmp_path, provider(serve(Upstream(fair).app), **key))
    done = command()
    assert done.returncode == 0, done.stderr


async def test_a_dead_judge_of_a_chain_leaves_the_others_measured(
    serve: Serve, tmp_path: Path
) -> None:
    write_rows(tmp_path)
    dead = provider("http://127.0.0.1:1", attempts=1)
    config = write_config(tmp_path, dead, provider(serve(Upstream(fair).app), name="k"))
    with pytest.raises(JudgeFault, match="'j' gave no verdict on any of 12 examples"):
        await calibrate(tmp_path, config, num_repeats=2)
    file = tmp_path / "report/calibration.json"
    first, second = Calibration.read(file).judges
    assert (first.overall.kappa, first.answered_nothing, first.stability) == (None, True, None)
    assert second.overall.kappa is not None
    assert second.overall.kappa.value == 1.0
    served = dead | {"requirement": requirement(file)}
    url = serve(judge_of(tmp_path, served))
    async with JudgeClient(url, retry=NO_RETRY) as client:
        request = JudgeRequest(question="Question", answers=("right answer",))
        (judgement,) = (await client.judge(request)).judgements
    assert isinstance(judgement, Abstention)
    assert "judge 'j' gave no verdict when it was calibrated" in judgement.failure.message


# The ceiling

#: A request reads 100 tokens: it costs 0.0002.
PRICE = {"price": {"input_per_million": 2}, "limits": {"concurrency": 1}}
#: Two repeats of 12 examples, and 6 pairs in both orders.
NUM_REQUESTS = 2 * 12 + 2 * 6


async def test_the_ceiling_stops_a_calibration_and_more_money_resumes_it(
    serve: Serve, tmp_path: Path
) -> None:
    write_rows(tmp_path)
    upstream = Upstream(fair)
    chain = provider(serve(upstream.app), **PRICE)
    for ceiling, num in ((0.001, 5), (0.003, 15), (0.0053, 27)):
        config = write_config(tmp_path, chain, ceiling=ceiling)
        told = rf"^the calibration has spent \d.\d+ of {ceiling:g}, with .* of judge 'j' in pass "
        with pytest.raises(BudgetExceeded, match=told) as raised:
            await calibrate(tmp_path, config, num_repeats=2)
        assert "raise the ceiling and repeat the command to resume" in str(raised.value)
        assert len(upstream.requests) in (num, num + 1)
        assert not (tmp_path / "report/calibration.json").exists()
    config = write_config(tmp_path, chain, ceiling=1)
    (judge,) = Calibration.read(await calibrate(tmp_path, config, num_repeats=2)).judges
    # A pair that the ceiling cut between its orders is asked again as a whole.
    assert NUM_REQUESTS <= len(upstream.requests) <= NUM_REQUESTS + 1
    assert judge.stability is not None
    assert judge.stability.same_outcome.n == 12
    assert judge.position_bias is not None
    assert judge.position_bias.flips.n == 6
    assert judge.cost.num_requests == len(upstream.requests)
    assert judge.cost.money == pytest.approx(0.0002 * len(upstream.requests))
    assert judge.cost.tokens == 120 * len(upstream.requests)
    report = (tmp_path / "report/report.md").read_text()
    assert f"| j | {judge.cost.num_requests} | {judge.cost.tokens} | 0.00" in report


def test_the_command_ends_at_its_ceiling_with_what_was_spent(
    serve: Serve, tmp_path: Path, command: Command
) -> None:
    write_rows(tmp_path)
    write_config(tmp_path, provider(serve(Upstream(fair).app), **PRICE), ceiling=1)
    done = command("--ceiling", "0.001")
    assert done.returncode == 1
    assert done.stderr == (
        "error: the calibration has spent 0.001000 of 0.001, with 5 of 12 judgements of judge 'j' "
        "in pass 'repeat 1' (5 judgements are kept in report/judgements.jsonl; raise the ceiling "
        "and repeat the command to resume)\n"
    )
    done = command()
    assert done.returncode == 0, done.stderr
    assert "cost: 0.004800 in 24 requests, 2880 tokens" in done.stdout


@pytest.mark.parametrize("num", [1, 4])
async def test_a_ceiling_amid_votes_gives_no_verdict_of_fewer_votes(
    serve: Serve, tmp_path: Path, num: int
) -> None:
    write_rows(tmp_path)
    chain = provider(serve(Upstream(doubtful).app), **PRICE)
    voting = {"votes": 2}
    config = write_config(tmp_path, chain, voting=voting, ceiling=num * 0.0002)
    with pytest.raises(BudgetExceeded, match="with . of 12 judgements") as raised:
        await calibrate(tmp_path, config)
    assert f"with {num // 3} of 12" in str(raised.value)
    log = tmp_path / "report/judgements.jsonl"
    assert log.exists() is (num > 3)
    if log.exists():
        first, *cut = map(json.loads, log.read_text().splitlines())
        assert (first["label"], first["money"]) == ("CORRECT", pytest.approx(0.0006))
        assert [one["label"] for one in cut] == [None]
        assert cut[0]["money"] == pytest.approx((num - 3) * 0.0002)
    config = write_config(tmp_path, chain, voting=voting, ceiling=1)
    (judge,) = Calibration.read(await calibrate(tmp_path, config)).judges
    assert judge.overall.kappa is not None
    assert judge.overall.kappa.value == 1.0


async def test_judgements_of_another_plan_are_not_mixed(serve: Serve, tmp_path: Path) -> None:
    write_rows(tmp_path)
    chain = provider(serve(Upstream(fair).app), **PRICE)
    config = write_config(tmp_path, chain, ceiling=0.001)
    with pytest.raises(BudgetExceeded):
        await calibrate(tmp_path, config)
    config = write_config(tmp_path, chain | {"temperature": 1.0})
    with pytest.raises(Conflict, match="report has judgements of another chain or prompt"):
        await calibrate(tmp_path, config)
    write_rows(tmp_path, {"id": "x", "question": "q", "answer": "a", "label": "CORRECT"})
    with pytest.raises(Conflict, match="report has judgements of other examples .choose another"):
        await calibrate(tmp_path, write_config(tmp_path, chain))
    (tmp_path / "report/plan.json").unlink()
    with pytest.raises(Conflict, match="report exists"):
        await calibrate(tmp_path, write_config(tmp_path, chain))


# An interruption


@pytest.mark.parametrize("num", [0, 5])
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_calibration_is_not_in_the_way(
    serve: Serve, tmp_path: Path, command: Command, num: int, by: signal.Signals
) -> None:
    write_rows(tmp_path)
    upstream = Upstream(None)
    upstream.script = [lambda asked: fair(asked) if len(upstream.requests) <= num else "slow"]
    write_config(tmp_path, provider(serve(upstream.app), **PRICE))
    running = subprocess.Popen(
        command_of("--no-probes"), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while len(upstream.requests) <= num:
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(by)
    _, told = running.communicate(timeout=30)
    assert running.returncode == (130 if by is signal.SIGINT else -by)
    assert (tmp_path / "report").exists() is (num > 0 or by is signal.SIGKILL)
    if num and by is signal.SIGINT:
        assert "5 judgements are kept in report/judgements.jsonl; repeat the command" in told
    upstream.requests.clear()
    upstream.script = [fair]
    done = command()
    assert done.returncode == 0, done.stderr
    assert len(upstream.requests) == 24 - num


async def test_a_folder_has_one_calibration_at_a_time(serve: Serve, tmp_path: Path) -> None:
    write_rows(tmp_path)
    config = write_config(tmp_path, provider(serve(Upstream(fair).app)))
    (tmp_path / "report").mkdir()
    with (
        held(tmp_path / "report"),
        pytest.raises(Conflict, match="report belongs to process .*wait until it ends"),
    ):
        await calibrate(tmp_path, config)
    await calibrate(tmp_path, config)


# The report


def test_the_report_names_what_was_left_out(serve: Serve, tmp_path: Path, command: Command) -> None:
    again: dict[str, object] = {
        "question": "Question 0",
        "answer": "right answer",
        "label": "CORRECT",
    }
    write_rows(tmp_path, again | {"id": "x"}, again | {"id": "y"})
    judge = provider(serve(Upstream(fair).app))
    write_config(tmp_path, judge, {"kind": "reference"}, verify=["exact", "number"])
    done = command()
    assert done.returncode == 0, done.stderr
    assert (
        "warning: 2 lines repeat the question, reference and answer of an earlier line and are "
        "left out: 13, 14\n"
    ) in done.stdout
    assert "first failure" not in done.stdout
    found = Calibration.read(tmp_path / "report/calibration.json")
    assert (found.num_examples, found.num_repeated) == (12, 2)
    assert found.verify == ("exact", "number")
    model, reference = found.judges
    assert (model.cost.num_requests, reference.cost.num_requests) == (24, 0)
    report = (tmp_path / "report/report.md").read_text()
    assert "**Not measured**: the chain's checks (`exact`, `number`) decide some" in report
    assert "Left out: 2 lines with the question" in report
