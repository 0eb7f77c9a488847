"""Evaluations by likelihood of a server that refuses some tasks."""

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Response
from rich.console import Console

from assay_shared.errors import BudgetExceeded, InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Role
from assay_trainer.data.importers.choices import choice_example
from assay_trainer.evaluate.job import EvaluationJob, run_job
from assay_trainer.evaluation.records.folder import read_evaluation
from assay_trainer.evaluation.records.protocol import Protocol
from tests.conftest import Serve

PROTOCOL = Protocol.model_validate({"kind": "likelihood", "prompt_format": "raw"})
NUM_TASKS = 40


def server(serve: Serve, is_refused: Callable[[int], bool], held_until: int = 0) -> str:
    """Serve a model that refuses tasks by number; the others wait for a number of refusals."""
    app, num_refused, is_open = FastAPI(), 0, asyncio.Event()

    @app.post("/v1/completions", response_model=None)
    async def complete(body: dict[str, Any]) -> dict[str, Any] | Response:
        nonlocal num_refused
        prompt = body["prompt"]
        if is_refused(int(prompt.split()[1])):
            num_refused += 1
            if num_refused >= held_until:
                is_open.set()
            return Response('{"error": "no such thing"}', 400)
        if held_until:
            await asyncio.wait_for(is_open.wait(), 30)
        first, *others = prompt.split(" ")
        tokens = [first, *(f" {one}" for one in others)]
        values = [None, *[-1.0] * len(others)]
        logprobs = {"tokens": tokens, "token_logprobs": values}
        return {"choices": [{"text": "", "finish_reason": "length", "logprobs": logprobs}]}

    return serve(app) + "/v1"


def run(path: Path, url: str, **changes: Any) -> str:
    """Evaluate the server on 40 tasks and return what is told."""
    tasks = [
        choice_example(f"q{i}", "d", Role.TEST, f"Question {i} ?", ["x", "y"], 0, {}).task
        for i in range(NUM_TASKS)
    ]
    file = path / "tasks.jsonl"
    file.write_text("".join(f"{one.model_dump_json()}\n" for one in tasks))
    job = EvaluationJob(
        sets=[f"s={file}"],
        output=path / "out",
        protocol=PROTOCOL,
        server=url,
        model="m",
        **changes,
    )
    told = io.StringIO()
    run_job(job, ServiceSettings(), Console(file=told, width=300))
    return told.getvalue()


async def test_one_answer_in_flight_saves_a_set_whose_first_requests_fail_alike(
    serve: Serve, tmp_path: Path
) -> None:
    url = server(serve, lambda number: number < 24, held_until=48)

    told = await asyncio.to_thread(run, tmp_path, url)

    stored = read_evaluation(tmp_path / "out")
    assert sum(one.failure is None for one in stored.sets["s"].samples) == 16
    assert "s: 100.0% [" in told
    assert "] of 16 scored tasks (40 in all), 24 samples without a score" in told


async def test_first_requests_that_all_fail_alike_end_the_command(
    serve: Serve, tmp_path: Path
) -> None:
    url = server(serve, lambda number: True)

    with pytest.raises(InvalidInput, match="first 40 requests of s failed alike.*HTTP 400"):
        await asyncio.to_thread(run, tmp_path, url)


async def test_a_given_number_of_failures_alone_decides(serve: Serve, tmp_path: Path) -> None:
    url = server(serve, lambda number: number < 24)

    with pytest.raises(InvalidInput, match="first 8 requests of s failed alike"):
        await asyncio.to_thread(run, tmp_path, url, concurrency=1)
    with pytest.raises(BudgetExceeded, match="^9 requests in a row have no score"):
        await asyncio.to_thread(run, tmp_path, url, concurrency=1, max_failed=9)
    told = await asyncio.to_thread(run, tmp_path, url, concurrency=1, max_failed=200)
    assert read_evaluation(tmp_path / "out").is_finished
    assert "s: 100.0%" in told
