"""Sources of answers, and the limits of their requests."""

import asyncio

import pytest
from fastapi import FastAPI

from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import TimedOut
from assay_shared.types import GenerateRequest
from assay_trainer.evaluate.answers import sources
from assay_trainer.evaluate.playing.player import PlayUnit
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
