"""A reply without an answer fails its episode and no other."""

import asyncio
import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from rich.console import Console

from assay_reward.or_debug.dataset.tasks import save
from assay_reward.or_debug.evaluate.chat_replies import read_reply, refuse_without_answer
from assay_reward.or_debug.evaluate.evaluation import EvaluationPlan
from assay_reward.or_debug.evaluate.run import EvaluationRun, run
from assay_reward.or_debug.evaluate.summary import OVERALL, CellSummary
from assay_shared.cli import main
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import InvalidInput, Unreachable
from assay_shared.types import Role, SamplingParams
from tests.conftest import Serve
from tests.support.or_debug.planted import INSTANCE, make_or_task
from tests.support.upstream import Upstream, says

SUBMIT = "Action: SUBMIT(c3)"
TOO_LONG = "the prompt exceeds the maximum context length"


def parts(*content: object) -> dict[str, Any]:
    return spoken(list(content))


def spoken(content: object, **usage: object) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": usage or {"completion_tokens": 20},
    }


def text(words: object) -> dict[str, object]:
    return {"type": "text", "text": words}


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """A cell of ten tasks."""
    cell = tmp_path / "or" / "type_A_easy"
    cell.mkdir(parents=True)
    tasks = [
        make_or_task(INSTANCE.model_copy(update={"id": f"p{number}"})).model_copy(
            update={"role": Role.TEST, "tags": {"error_type": "A", "difficulty": "easy"}}
        )
        for number in range(10)
    ]
    save(tasks, cell / "tasks.jsonl")
    return tmp_path / "or"


def evaluated(
    benchmark: Path, app: FastAPI, serve: Serve, request_timeout: float = 30.0, samples: int = 1
) -> CellSummary:
    asked = EvaluationRun(
        data=benchmark,
        policy=serve(app) + "/v1",
        output=benchmark.parent / "out",
        baselines=False,
        model="m",
        request_timeout=request_timeout,
        retry=NO_RETRY,
        sampling=SamplingParams(max_tokens=50, temperature=0.0),
        plan=EvaluationPlan(samples=samples, concurrency=4),
    )
    found = run(asked, Console(quiet=True)).of("m", OVERALL)
    assert found is not None
    return found


# Texts


def test_the_parts_of_a_content_are_read_as_one_text() -> None:
    reply = parts(text("I think.\n"), {"type": "thinking", "thinking": []}, text(SUBMIT))
    refuse_without_answer(reply)
    assert read_reply(reply, 50).text == f"I think.\n{SUBMIT}"


@pytest.mark.parametrize(
    "content",
    [7, 0, {"text": "x"}, ["x"], [text(7)], [{"type": "image_url"}], [{"type": ["text"]}], [None]],
)
def test_a_content_that_is_no_text_is_no_answer(content: object) -> None:
    with pytest.raises(Unreachable, match="without words"):
        refuse_without_answer(spoken(content))


def test_a_server_that_speaks_in_parts_is_evaluated(benchmark: Path, serve: Serve) -> None:
    found = evaluated(benchmark, Upstream(parts(text(SUBMIT))).app, serve)
    assert (found.num_episodes, found.num_failed) == (10, 0)
    assert found.metrics["tokens"].mean == 20.0


# Tokens


@pytest.mark.parametrize("count", [None, True, "20", -3, 0, 2_000_000_000_000_000])
def test_a_count_of_tokens_that_cannot_be_right_is_a_failure(count: object) -> None:
    with pytest.raises(InvalidInput, match=r"usage\.completion_tokens"):
        read_reply(spoken(SUBMIT, completion_tokens=count), 50)


def test_no_tokens_are_right_for_no_text() -> None:
    assert read_reply(spoken(None, completion_tokens=0), 50).num_tokens == 0


def test_a_wrong_count_enters_no_mean(benchmark: Path, serve: Serve) -> None:
    script = (spoken(SUBMIT, completion_tokens=2 * 10**15), says(SUBMIT))
    found = evaluated(benchmark, Upstream(*script).app, serve)
    assert (found.num_failed, found.metrics["tokens"].mean) == (1, 20.0)


# Errors


def test_an_http_error_fails_its_episode_alone(benchmark: Path, serve: Serve) -> None:
    upstream = Upstream(400, says(SUBMIT))
    found = evaluated(benchmark, upstream.app, serve)
    assert (found.num_episodes, found.num_failed) == (10, 1)
    assert len(upstream.requests) == 10, "it is not asked again"
    assert (benchmark.parent / "out" / "report.md").exists()


def test_eight_equal_errors_at_first_end_the_command(benchmark: Path, serve: Serve) -> None:
    upstream = Upstream(400)
    with pytest.raises(InvalidInput, match=r"first 8 requests of m failed alike.*HTTP 400"):
        evaluated(benchmark, upstream.app, serve, samples=4)
    assert len(upstream.requests) < 40


def test_a_prompt_beyond_the_context_fails_its_episode_alone(benchmark: Path, serve: Serve) -> None:
    app, asked = FastAPI(), []

    @app.post("/v1/chat/completions")
    async def chat(body: dict[str, Any]) -> Any:
        asked.append(body)
        if len(asked) == 1:
            return JSONResponse({"error": {"message": TOO_LONG}}, status_code=400)
        return JSONResponse(says(SUBMIT))

    found = evaluated(benchmark, app, serve)
    assert (found.num_episodes, found.num_failed) == (10, 1)


def test_a_hanging_server_has_a_limit(benchmark: Path, serve: Serve) -> None:
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def chat(body: dict[str, Any]) -> dict[str, object]:
        await asyncio.sleep(0.5)
        return says(SUBMIT)

    started = time.monotonic()
    found = evaluated(benchmark, app, serve, request_timeout=0.1)
    assert found.num_failed == found.num_episodes == 10
    assert time.monotonic() - started < 10


# The command


def test_the_folder_of_an_evaluation_without_any_result_is_used_again(
    benchmark: Path, tmp_path: Path, serve: Serve
) -> None:
    output = tmp_path / "again"
    command = ["or-debug", "evaluate", str(benchmark), "--model", "m", "--output", str(output)]
    codes = []
    refusing, reasons = FastAPI(), itertools.count()

    @refusing.post("/v1/chat/completions")
    async def chat() -> JSONResponse:
        return JSONResponse({"error": {"message": f"reason {next(reasons)}"}}, 400)

    for app in (refusing, Upstream(400, says(SUBMIT)).app, refusing):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--policy", serve(app) + "/v1", "--no-baselines"])
        codes.append(ended.value.code)
    assert codes == [1, 1, 3]
    episodes = (output / "episodes.jsonl").read_text().splitlines()
    assert sum('"failure":null' in one for one in episodes) == 9


def test_the_command_tells_episodes_without_a_result(
    benchmark: Path, tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(Upstream(400, says(SUBMIT)).app) + "/v1"
    output = tmp_path / "told"
    given = ["--policy", url, "--model", "m", "--no-baselines", "--request-timeout", "20"]
    with pytest.raises(SystemExit) as ended:
        main(["or-debug", "evaluate", str(benchmark), *given, "--output", str(output)])
    assert ended.value.code == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 of 10 episodes have no result; the last: model server: HTTP 400" in shown
    assert "a request to the server has 20 s at most" in shown
    lines = (output / "episodes.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["failure"] is not None for line in lines) == 1
    assert (output / "report.md").exists()
