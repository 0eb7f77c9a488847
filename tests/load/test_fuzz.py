"""The fuzzer: a bounded run against a separate service; and its findings on planted faults."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from assay_sandbox.load.fuzz import fuzz
from assay_sandbox.load.fuzz_programs import attack
from assay_shared.settings.environment import ServiceSettings
from tests.conftest import Serve, wait_until
from tests.support.load_commands import bench


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_hundreds_of_hostile_programs_are_judged_and_not_felt(tmp_path: Path) -> None:
    output = tmp_path / "fuzz.json"
    ended = bench(
        "fuzz", "--programs", "300", "--failures", str(tmp_path / "failures"),
        "--output", str(output), timeout_s=200,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    facts = json.loads(output.read_text())
    assert sum(facts["verdicts"].values()) == facts["num_programs"] == 300
    assert facts["failures"] == {}
    assert facts["left"] == []


def test_a_seed_and_a_number_make_the_same_request_again() -> None:
    assert [attack(3, n).body for n in range(200)] == [attack(3, n).body for n in range(200)]
    assert attack(3, 1).body != attack(4, 1).body
    assert {attack(3, n).path for n in range(200)} == {"/v1/execute", "/v1/test", "/v1/sessions"}


def fake(verdict: dict[str, object], status: int, asked: list[str] | None = None) -> FastAPI:
    """A sandbox with the same answer for every program; `asked` gets the path of each."""
    app = FastAPI()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"isolation": "none"}

    @app.get("/metrics")
    async def metrics() -> str:
        return ""

    @app.api_route("/{path:path}", methods=["POST", "DELETE"])
    async def judge(path: str, request: Request) -> JSONResponse:
        if asked is not None:
            asked.append(path)
        return JSONResponse(verdict, status_code=status)

    return app


CASES = [{"status": "accepted"}]


@pytest.mark.parametrize(
    ("verdict", "status", "kind"),
    [
        ({"status": "sandbox_error"}, 200, "sandbox_error"),
        ({"error": {"code": "SandboxFault"}}, 500, "HTTP 500 SandboxFault"),
        ({"status": "runtime_error", "cases": CASES, "grading": "outside"}, 200, "a secret answer"),
        ({"status": "runtime_error"}, 200, "innocent: state"),
    ],
)
async def test_failures_are_found_and_kept(
    serve: Serve, verdict: dict[str, object], status: int, kind: str
) -> None:
    seen = await fuzz(20, 1, 2, ServiceSettings(), url=serve(fake(verdict, status)))
    assert not seen.is_sound
    kept = [failure for failure in seen.kept if failure.kind.startswith(kind)]
    assert kept
    assert kept[0].request


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_figures_so_far_even_in_the_background(
    serve: Serve, tmp_path: Path, number: signal.Signals
) -> None:
    output = tmp_path / "fuzz.json"
    asked: list[str] = []
    url = serve(fake({"status": "sandbox_error"}, 200, asked))
    command = [sys.executable, "-m", "assay_shared.cli", "bench", "fuzz", "--url", url]
    command += ["--programs", "100000", "--failures", str(tmp_path / "failures")]
    # As a shell starts a command that ends with `&`: with SIGINT ignored.
    background = ["env", "--ignore-signal=INT", *command, "--output", str(output)]
    with subprocess.Popen(background, stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(asked) > 100, "programs")
        process.send_signal(number)
        said, _ = process.communicate(timeout=30)
    facts = json.loads(output.read_text())
    assert process.returncode == 1, said  # what was seen until then is not sound
    assert facts["is_stopped"]
    assert 0 < facts["num_programs"] < 100000
    assert facts["failures"]["sandbox_error"] == facts["num_programs"], facts
    assert any((tmp_path / "failures").iterdir())
