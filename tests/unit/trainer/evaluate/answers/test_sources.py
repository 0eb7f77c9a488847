"""Sources of answers, and the limits of their requests."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import TimedOut
from assay_shared.types import GenerateRequest, Role, SamplingParams
from assay_trainer.evaluate.answers import sources
from assay_trainer.evaluate.playing.player import PlayUnit
from assay_trainer.evaluate.sets import made_set
from assay_trainer.evaluation.records.protocol import Protocol
from tests.conftest import Serve
from tests.support.fakes import make_task


async def test_a_server_that_hangs_costs_the_limit_of_a_request(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = FastAPI()

    @app.post("/v1/completions")
    async def hang() -> None:
        await asyncio.sleep(5)

    monkeypatch.setattr(sources, "RETRY", NO_RETRY)
    unit = PlayUnit(make_task(), place=0, first=0, num=1, max_tokens=8)
    async with sources.of_server(serve(app) + "/v1", "m", "K", Protocol(), 0.2) as source:
        generator = source.answering.generator(unit, "s")
        with pytest.raises(TimedOut):
            await generator.generate(GenerateRequest(prompt="p"))


async def test_a_server_is_asked_for_the_missing_samples_of_a_unit_alone(serve: Serve) -> None:
    app, seeds = FastAPI(), []

    @app.post("/v1/completions")
    async def answer(body: dict[str, Any]) -> dict[str, Any]:
        seeds.append(body["seed"])
        choice = {"text": "x", "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"completion_tokens": 1}}

    sampling = SamplingParams(n=3, seed=5)
    unit = PlayUnit(make_task(), place=0, first=32, num=3, max_tokens=8, known=(33, 34))
    async with sources.of_server(serve(app) + "/v1", "m", "K", Protocol()) as source:
        generator = source.answering.generator(unit, "s")
        found = await generator.generate(GenerateRequest(prompt="p", sampling=sampling))

    assert [one.text for one in found.completions] == ["x", "", ""]
    assert seeds == [5]


def test_answers_to_no_task_of_the_sets_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"task_id": "t", "text": "x"}\n{"task_id": "tt", "text": "y"}\n')
    opened = made_set("s", "s", [make_task("t", role=Role.TEST)], limit=None, limit_seed=0)

    source, num_unused = sources.of_file(file, [opened], Protocol())

    assert num_unused == 1
    unit = PlayUnit(opened.tasks[0], place=0, first=0, num=1, max_tokens=8)
    assert list(source.answering.uncounted(unit, "s")) == [0]
