"""A sandbox under full load for half a minute; and the soak's findings on planted faults."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from assay_sandbox.load.footprint import TOLERANCES, MemorySample, growth
from assay_sandbox.load.load import open_session
from assay_sandbox.load.soak import Soak, ask_known
from assay_sandbox.load.soak_programs import KNOWN
from assay_shared.settings.environment import ServiceSettings
from tests.conftest import Serve
from tests.support.load_commands import bench

FLAT = MemorySample(
    server_bytes=60 * 2**20,
    slots_bytes=50 * 2**20,
    descriptors=100,
    processes=8,
    cgroups=3,
    files=1,
)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_half_a_minute_of_full_load_changes_nothing(tmp_path: Path) -> None:
    output, picture = tmp_path / "soak.json", tmp_path / "soak.png"
    ended = bench(
        "soak", "--duration-s", "30", "--output", str(output), "--picture", str(picture),
        timeout_s=200,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    facts = json.loads(output.read_text())
    assert facts["right"].keys() == {known.name for known in KNOWN}
    assert facts["not_right"] == {}
    assert facts["growth"].keys() == TOLERANCES.keys()
    assert facts["left"] == facts["troubles"] == []
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", TOLERANCES)
def test_a_slow_leak_is_found(name: str) -> None:
    step = 1 + TOLERANCES[name] // 30
    samples = [replace(FLAT, **{name: getattr(FLAT, name) + n * step}) for n in range(60)]
    found = growth(samples)
    assert [key for key, seen in found.items() if seen.is_too_much] == [name]


def test_what_a_program_holds_for_a_moment_is_no_leak() -> None:
    samples = [replace(FLAT, processes=60 if n > 40 and n % 2 else 8) for n in range(60)]
    assert not any(seen.is_too_much for seen in growth(samples).values())


def test_a_few_samples_say_nothing() -> None:
    with pytest.raises(ValueError, match="9 samples are too few"):
        growth([FLAT] * 9)


_LEAVES_THINGS = """
import os, pathlib, psutil, subprocess, sys, tempfile, time
from assay_sandbox.load.footprint import Footprint
folder = pathlib.Path(tempfile.mkdtemp())
service = subprocess.Popen([sys.executable, "-c", sys.argv[1]], cwd=folder)
footprint = Footprint(service.pid, folder)
footprint.sample()
service.wait()
print(footprint.left(0.2))
for orphan in psutil.Process().children():
    orphan.kill()
"""
_SERVICE = """
import os, time
time.sleep(0.5)
open("file", "w").close()
if os.fork() == 0:
    os.setsid()
    time.sleep(30)
"""


def test_an_orphan_and_a_file_are_found() -> None:
    """In a separate process: orphans become its children."""
    shown = subprocess.run(
        [sys.executable, "-c", _LEAVES_THINGS, _SERVICE],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout
    process, file = eval(shown)
    assert process.startswith("process ")
    assert file.endswith("/file")


async def test_a_wrong_verdict_is_told_with_the_answer(serve: Serve) -> None:
    app = FastAPI()

    @app.post("/v1/execute")
    async def execute(body: dict[str, Any]) -> JSONResponse:
        return JSONResponse({"status": "accepted", "stdout": "2\n"})

    seen = Soak(duration_s=1.0, concurrency=1)
    url = serve(app)
    by_name = {known.name: known for known in KNOWN}
    async with open_session(ServiceSettings()) as session:
        await ask_known(session, url, by_name["accepted"], seen)
        await ask_known(session, url, by_name["call cases"], seen)
        await ask_known(session, "http://127.0.0.1:9", by_name["daemon"], seen)
    assert seen.right == Counter()
    assert seen.not_right == {"accepted": 1, "call cases": 1, "daemon": 1}
    assert seen.details[0] == 'accepted: 200 {"status":"accepted","stdout":"2\\n"}'
    assert seen.details[1].startswith("call cases: 404 ")
    seen.samples = [FLAT] * 50
    seen.left = ["file /tmp/x"]
    troubles = seen.troubles()
    assert "1 answers of accepted are not right" in troubles
    assert "no answer of accepted" in troubles
    assert "left behind: file /tmp/x" in troubles
