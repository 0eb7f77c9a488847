"""Runs over HTTP: the service starts real processes; without a broker they fail fast."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from assay_shared.clients import TrainerClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.clients.trainer import RunInfo, RunRequest
from assay_shared.errors import ConfigError, Conflict, InvalidInput, NotFound
from assay_shared.runs.run_folder import RunFolder
from assay_trainer import config as trainer_config
from assay_trainer.service.app import create_app
from assay_trainer.service.runs import Runs
from assay_trainer.settings import TrainerSettings
from tests.conftest import Serve

DEMO = yaml.safe_load((Path(trainer_config.__file__).parent / "service" / "demo.yaml").read_text())


@pytest.fixture
async def client(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TrainerClient]:
    monkeypatch.setenv("ASSAY_REDIS_URL", f"unix://{tmp_path}/no.sock")
    monkeypatch.setattr("assay_trainer.rollouts.store._RETRIES", 1)
    url = serve(create_app(TrainerSettings(runs=tmp_path / "runs")))
    async with TrainerClient(url, retry=NO_RETRY) as client:
        yield client


async def test_a_run_names_the_client_that_started_it(serve: Serve, tmp_path: Path) -> None:
    keys = {"ada": "sesame-ada-0123456789"}
    settings = TrainerSettings.model_validate(
        {"runs": tmp_path, "token": "own-0123456789abcdef", "client_tokens": keys}
    )
    url = serve(create_app(settings))
    for name, token in (("one", keys["ada"]), ("two", "own-0123456789abcdef")):
        async with TrainerClient(url, token=token, retry=NO_RETRY) as client:
            await client.start(RunRequest(name=name, config=DEMO))
            await client.stop(name)
    found = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("one", "two")]
    assert [one.get("started_by") for one in found] == ["ada", None]


@pytest.mark.slow
async def test_a_run_is_a_process_whose_end_is_told_and_that_can_be_resumed(
    client: TrainerClient, tmp_path: Path
) -> None:
    info = await client.start(RunRequest(name="one", config=DEMO))
    assert info.status.state == "running"
    with pytest.raises(Conflict, match="exists"):
        await client.start(RunRequest(name="one", config=DEMO))
    kinds = [event.kind async for event in client.events("one")]
    assert kinds == ["settings", "run_failed"]
    info = await client.run("one")
    assert info.status.state == "failed"
    assert "no Redis" in info.status.message
    assert [run.name for run in await client.runs()] == ["one"]
    assert RunFolder.open(tmp_path / "runs" / "one").config.exists()
    assert (await client.resume("one")).status.state == "running"
    kinds = [event.kind async for event in client.events("one")]
    assert kinds == ["settings", "run_failed", "run_failed"]


async def test_a_process_that_was_killed_is_noticed(client: TrainerClient, tmp_path: Path) -> None:
    await client.start(RunRequest(name="three", config=DEMO))
    assert (await client.stop("three")).name == "three"
    kinds = [event.kind async for event in client.events("three")]
    assert kinds in ([], ["settings"], ["settings", "run_stopped"], ["settings", "run_failed"])
    assert (await client.run("three")).status.state in ("failed", "stopped")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 200])
async def test_a_name_cannot_leave_the_folder(client: TrainerClient, name: str) -> None:
    with pytest.raises(InvalidInput, match="is not a valid run name"):
        await client.start(RunRequest(name=name, config=DEMO))


async def test_wrong_requests_are_told_what_is_wrong(client: TrainerClient) -> None:
    with pytest.raises(ConfigError, match="grpo.stepz: unknown key .*did you mean steps"):
        await client.start(RunRequest(name="x", config=DEMO | {"grpo": {"stepz": 1}}))
    for call in (client.run, client.stop, client.resume):
        with pytest.raises(NotFound, match="there is no run 'nobody'"):
            await call("nobody")
    with pytest.raises(NotFound):
        [event async for event in client.events("nobody")]


async def test_a_long_list_of_runs_holds_up_nobody(
    client: TrainerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    plain = Runs.list

    def list_late(runs: Runs) -> list[RunInfo]:
        assert goes_on.wait(30)
        return plain(runs)

    monkeypatch.setattr(Runs, "list", list_late)
    lists = [asyncio.create_task(client.runs()) for _ in range(3)]
    await asyncio.sleep(0.1)
    with pytest.raises(NotFound):  # answered meanwhile
        await client.run("none")
    assert not any(one.done() for one in lists)
    goes_on.set()
    assert await asyncio.gather(*lists) == [[], [], []]
