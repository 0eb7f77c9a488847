"""The load tester against a real sandbox, and against a lying sandbox."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from assay_sandbox.app import create_app
from assay_sandbox.load.load import (
    WORKLOADS,
    Format,
    LoadProgram,
    LoadStep,
    draw,
    parse_concurrencies,
    put_load,
)
from assay_sandbox.settings import SandboxSettings
from assay_shared.settings.environment import ServiceSettings
from tests.conftest import Serve

SETTINGS = ServiceSettings()


@pytest.mark.parametrize("kind", WORKLOADS, ids=lambda kind: "-".join(kind))
@pytest.mark.slow
async def test_right_answers_are_counted(
    serve: Serve, kind: tuple[Format, LoadProgram], tmp_path: Path
) -> None:
    url = serve(create_app(SandboxSettings(sandbox_minimum_isolation="fallback")))
    steps = await put_load(url, WORKLOADS[kind], [1, 4], 0.3, SETTINGS)
    for step in steps:
        assert step.num_right > 0
        assert (step.num_wrong, step.num_refused, step.num_errors) == (0, 0, 0)
        assert step.num_right == len(step.latencies_ms)
        assert step.duration_s >= 0.3
    draw(steps, "load", tmp_path / "load.png")
    assert (tmp_path / "load.png").read_bytes().startswith(b"\x89PNG")
    json.dumps([step.facts() for step in steps])


async def test_what_is_wrong_or_refused_is_no_throughput(serve: Serve) -> None:
    app = FastAPI()
    answers = iter(range(10**9))

    @app.post("/v1/execute")
    async def execute(body: dict[str, Any]) -> JSONResponse:
        match next(answers) % 3:
            case 0:
                return JSONResponse({"status": "accepted", "stdout": "2\n"})
            case 1:
                return JSONResponse({}, status_code=429)
        return JSONResponse(["no object"])

    workload = WORKLOADS[Format.ASSAY, LoadProgram.PRINT]
    (step,) = await put_load(serve(app), workload, [2], 2.0, SETTINGS)
    assert step.num_right == 0
    assert step.num_wrong > step.num_refused > 0


async def test_a_service_that_is_not_there_is_an_error(serve: Serve) -> None:
    workload = WORKLOADS[Format.ASSAY, LoadProgram.PRINT]
    (step,) = await put_load("http://127.0.0.1:9", workload, [1], 2.0, SETTINGS)
    assert step.num_errors > 0


def test_percentiles_are_of_the_right_answers() -> None:
    step = LoadStep(1, duration_s=2.0, num_right=101, latencies_ms=[float(n) for n in range(101)])
    assert step.percentile(50) == 50.0
    assert step.percentile(99) == 99.0
    assert step.per_s == 50.5


@pytest.mark.parametrize("text", ["", "0", "1,x", "1,,2", "-1"])
def test_concurrencies_are_numbers_above_zero(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # int's own words
        parse_concurrencies(text)
