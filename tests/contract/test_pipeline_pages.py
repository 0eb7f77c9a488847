"""The pages of pipelines over HTTP, of pipelines that the pipelines' own code ran."""

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from assay_shared.runs.run_lock import held
from assay_trainer.pipelines.api.app import create_served_app
from assay_trainer.pipelines.runner import Pipeline
from assay_trainer.pipelines.stage_folder import CommandAttempt
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve
from tests.contract.test_pages import page, read_all
from tests.support.browser.stored_pipelines import failed_pipeline, gated_pipeline, write_pipeline

HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
async def session(serve: Serve, runs: Path) -> AsyncIterator[aiohttp.ClientSession]:
    url = serve(create_served_app(TrainerSettings(runs=runs)))
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(30)) as opened:
        yield opened


@pytest.mark.slow
async def test_a_failed_pipeline_tells_what_failed_and_leads_to_the_run_of_a_stage(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    failed_pipeline(runs, "small", ["data", "show", HOSTILE])
    shutil.rmtree(runs.parent / "files")  # the service may have no such files
    found = await page(session, "/pipelines/small")
    assert "<script>alert(1)</script>" in found.text, "the log's last line is shown as a text"
    assert "exit code 2" in found.text
    assert "broken comes before it, and it is failed" in found.text
    stages = [one["id"] for tag, one in found.found if tag == "tr" and "id" in one]
    assert stages == ["stage-make", "stage-learn", "stage-broken", "stage-last"]
    assert "30.0 min" in found.text
    assert "2 of 4" in found.text
    assert "without those that are not known" in found.text, "the forecast"
    assert "/runs/small~learn" in set(found.links())
    assert "/pipelines" in set((await page(session, "/")).links())
    listed = await page(session, "/pipelines")
    assert "/pipelines/small" in set(listed.links())
    await read_all(session, "small~learn", 32)
    run = await page(session, "/runs/small~learn")
    assert {"/runs/small~learn/samples", "/runs/small~learn/data"} <= set(run.links())
    samples = await page(session, "/runs/small~learn/samples")
    await page(session, next(samples.links("cell")))
    await page(session, "/runs/small~learn/evaluations")
    for wrong in ("small~make", "small~none", "none~learn", "small~", "..~learn"):
        await page(session, f"/runs/{wrong}", 422 if wrong.startswith(".") else 404)


async def test_a_gate_that_stops_is_told_until_it_is_overruled(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    assert "0 pipelines" in (await page(session, "/pipelines")).text
    pipeline = gated_pipeline(runs, "gated", HOSTILE)
    found = await page(session, "/pipelines/gated")
    assert "stopped by a gate" in found.text
    assert "accepted_at_1 of held is to be at least 0.6: 0.3 (0.2189 to 0.3958): FAIL" in found.text
    assert "a gate of before stops the pipeline" in found.text
    async with session.get("/pipelines/gated?part=true") as response:
        part, stamp = await response.text(), response.headers["etag"]
        assert "<html" not in part
        assert "<table" in part
    unchanged = {"if-none-match": stamp}
    async with session.get("/pipelines/gated?part=true", headers=unchanged) as response:
        assert response.status == 304
    pipeline.overrule("before", f"we know {HOSTILE}")
    async with session.get("/pipelines/gated?part=true", headers=unchanged) as response:
        assert response.status == 200
    found = await page(session, "/pipelines/gated")
    assert "stopped by a gate" not in found.text
    assert "overruled: we know <script>" in found.text
    assert "a gate of before stops" not in found.text


async def test_a_running_stage_shows_the_last_line_of_its_log(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    words = {"kind": "command", "words": ["tasks"]}
    stages = {"first": words, "second": words | {"after": ["first"]}}
    pipeline = write_pipeline(runs, "live", stages)
    first = pipeline.stages["first"].folder
    first.add_attempt(CommandAttempt(started=1.0))
    first.log.write_text(f"begins\nstep 3 of 9 {HOSTILE}\n")
    found = await page(session, "/pipelines/live")
    assert "its process was killed: step 3 of 9" in found.text
    with held(runs / "live"):
        found = await page(session, "/pipelines/live")
        assert "its process was killed" not in found.text
        assert "step 3 of 9 <script>" in found.text
        assert "it needs first" in found.text
        assert f"process {os.getpid()}" in found.text


async def test_half_written_and_damaged_folders_are_named_and_the_rest_is_shown(
    session: aiohttp.ClientSession, runs: Path
) -> None:
    def damaged(name: str) -> Pipeline:
        return gated_pipeline(runs, name, "")

    record = damaged("record").stages["before"].folder.path / "stage.json"
    record.write_bytes(record.read_bytes()[:40])
    found = await page(session, "/pipelines/record")
    assert "stage.json cannot be read" in found.text
    assert "before comes before it, and it is unreadable" in found.text
    attempts = damaged("attempts").stages["after"].folder
    attempts.path.mkdir(parents=True)
    (attempts.path / "attempts.jsonl").write_text('{"started": 1.0}\n{"star')
    assert "attempts.jsonl:2: not JSON" in (await page(session, "/pipelines/attempts")).text
    metrics = damaged("metrics").stages["before"].folder.output / "held" / "metrics.json"
    metrics.write_text('{"overall": {"accepted_at_1": 3}}')
    found = await page(session, "/pipelines/metrics")
    assert "a stage's results cannot be read" in found.text
    assert "gate of before" in found.text
    folder = damaged("pipe").stages["before"].folder.path
    (folder / "stage.json").unlink()
    os.mkfifo(folder / "stage.json")
    assert "not a regular file" in (await page(session, "/pipelines/pipe")).text
    for name, content in (("empty", ""), ("list", "[]"), ("stages", '{"file": "x", "config": {}}')):
        (runs / name).mkdir()
        (runs / name / "pipeline.json").write_text(content)
        await page(session, f"/pipelines/{name}", 422)
    stored = json.loads((runs / "record" / "pipeline.json").read_text())
    stored["config"]["stages"][HOSTILE] = stored["config"]["stages"].pop("after")
    (runs / "hostile").mkdir()
    (runs / "hostile" / "pipeline.json").write_text(json.dumps(stored))
    await page(session, "/pipelines/hostile", 422)
    (runs / "a b<b>").mkdir()
    (runs / "a b<b>" / "pipeline.json").write_text("{}")
    listed = await page(session, "/pipelines")
    assert "a b<b>" in listed.text
    assert "is not a valid run name" in listed.text
    assert "9 pipelines" in listed.text
    assert not [one for one in listed.links() if "a%20b" in one]
    await page(session, "/pipelines/a%20b", 422)
    await page(session, "/pipelines/none", 404)
