"""Four times the capacity of a sandbox."""

import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from assay_sandbox.app import create_app
from assay_sandbox.load.overload import Overload, overload
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import Unreachable
from assay_shared.settings.environment import ServiceSettings
from tests.conftest import SandboxProcess, Serve
from tests.support.load_commands import bench

NUM_RUNS = 2000
SETTINGS = ServiceSettings()
RIGHT = {"status": "accepted", "stdout": "1\n"}


@pytest.mark.slow
def test_every_run_is_accepted_or_refused(serve: Serve, tmp_path: Path) -> None:
    settings = {"sandbox_minimum_isolation": "fallback", "sandbox_max_waiting": 64}
    url = serve(create_app(SandboxSettings.model_validate(settings)))
    output = tmp_path / "overload.json"
    ended = bench(
        "overload", "--url", url, "--runs", str(NUM_RUNS), "--output", str(output), timeout_s=120
    )
    assert ended.returncode == 0, ended.stdout
    facts = json.loads(output.read_text())
    assert facts["accepted"] > 0
    assert facts["refused"] > 0
    assert facts["accepted"] + facts["refused"] == NUM_RUNS
    assert facts["offered_per_s"] > 1.5 * facts["capacity_per_s"]


def lying_app(status: int = 200, headers: dict[str, str] | None = None, **answer: Any) -> FastAPI:
    """Right while capacity is measured, then as told."""
    app = FastAPI()
    asked = count()

    @app.post("/v1/execute")
    async def execute(body: dict[str, Any]) -> JSONResponse:
        if next(asked) < 50:
            return JSONResponse(RIGHT)
        return JSONResponse(RIGHT | answer, status_code=status, headers=headers)

    return app


async def offer(url: str, **changed: Any) -> Overload:
    arguments = {
        "num_runs": 300, "factor": 2.0, "max_in_flight": 50, "late_after_s": 5.0, "capacity_s": 0.5,
    } | changed  # fmt: skip
    return await overload(url, settings=SETTINGS, **arguments)


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        ("refused", {"status": 503, "headers": {"retry-after": "1"}}),
        ("refused without a time", {"status": 503}),
        ("error", {"status": 504}),
        ("wrong", {"status": 500}),
        ("wrong", {"stdout": "2\n"}),
    ],
    ids=str,
)
async def test_what_is_not_accepted_is_told_apart(
    serve: Serve, outcome: str, answer: dict[str, Any]
) -> None:
    seen = await offer(serve(lying_app(**answer)))
    assert seen.counts == {outcome: 300}
    assert seen.is_sound == (outcome == "refused")


async def test_a_late_answer_is_no_good_answer(serve: Serve) -> None:
    seen = await offer(serve(lying_app()), late_after_s=0.0)
    assert seen.counts == {"late": 300}
    assert not seen.is_sound


async def test_the_command_fails_if_a_verdict_is_wrong(serve: Serve) -> None:
    ended = bench("overload", "--url", serve(lying_app(stdout="")), "--runs", "50", timeout_s=60)
    assert ended.returncode == 1, ended.stdout


async def test_what_is_no_sandbox_is_said_so(serve: Serve) -> None:
    with pytest.raises(Unreachable, match="is that a sandbox"):
        await offer(serve(FastAPI()))


SOFT_LIMIT = 256


@pytest.fixture
def low_soft_limit() -> Iterator[None]:
    """Lower the limit of open files for later processes, until they ask for more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("low_soft_limit")
def test_the_soft_limit_of_open_files_is_not_that_of_connections(
    sandbox_process: SandboxProcess,
) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    address = urlsplit(sandbox_process.url)
    with ExitStack() as held:
        for _ in range(SOFT_LIMIT + 10):
            connection = socket.create_connection((address.hostname, address.port), timeout=10)
            held.enter_context(connection)
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: sandbox\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
