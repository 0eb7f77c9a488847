"""Runs of a service that was killed: the next one resumes them, unless they were stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from assay_shared.clients.trainer import RunRequest
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.runs.run_lock import owner_of
from assay_trainer.service import runs as module
from assay_trainer.service.runs import Runs
from tests.conftest import wait_until
from tests.support.ports import free_port
from tests.support.valkey import TestValkey
from tests.unit.trainer.service.test_runs import SFT


@contextmanager
def service(runs: Path, valkey: TestValkey) -> Iterator[tuple[httpx.Client, int]]:
    """Yield a client of a real trainer service, and its process id. It is killed at the end."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "assay_shared.cli", "trainer", "serve", "--port", str(port)],
        env=os.environ | {"ASSAY_REDIS_URL": valkey.url, "ASSAY_RUNS": str(runs)},
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:

        def answers() -> bool:
            try:
                return client.get("/ready").status_code == 200
            except httpx.TransportError:
                return False

        try:
            wait_until(answers, "the service to answer", 200)
            yield client, process.pid
        finally:
            process.kill()
            process.wait()


def status_of(run: Path) -> str:
    return RunFolder(run).read_status().state


@pytest.mark.slow
def test_a_killed_service_leaves_its_run_to_the_next_one_and_a_stopped_run_alone(
    tmp_path: Path, valkey: TestValkey
) -> None:
    run = tmp_path / "one"

    def held_by_another_than(pid: int) -> bool:
        owner = owner_of(run)
        return owner is not None and owner.pid != pid

    with service(tmp_path, valkey) as (client, pid):
        client.post("/v1/runs", json={"name": "one", "config": SFT}).raise_for_status()
        wait_until(lambda: status_of(run) == "running" and owner_of(run), "the run to begin", 200)
        first = owner_of(run)
        assert first is not None
        os.kill(pid, signal.SIGKILL)
        os.kill(first.pid, signal.SIGKILL)  # as a lost node takes both
        wait_until(lambda: owner_of(run) is None, "the run to be lost")
    assert status_of(run) == "running", "it had no time to say a word"
    with service(tmp_path, valkey) as (client, _):
        wait_until(lambda: held_by_another_than(first.pid), "the run to be resumed", 200)
        client.post("/v1/runs/one/stop").raise_for_status()
        wait_until(lambda: owner_of(run) is None, "the run to stop", 200)
    third = Runs(tmp_path)
    third.resume_stopped()
    assert third.info("one").status.state == "stopped"
    assert third.started() == [], "its user stopped it"


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of a service that was killed; each process of it ends without a word."""

    def die(command: object, log: Path) -> "subprocess.Popen[bytes]":
        folder = RunFolder(log.parent)
        folder.write_status(RunStatus(state="running", stage="sft", step=3))
        process = subprocess.Popen(["true"])
        process.wait()
        return process

    monkeypatch.setattr(module, "spawn", die)
    Runs(tmp_path).start(RunRequest(name="one", config=SFT))
    return RunFolder(tmp_path / "one")


def next_service(folder: RunFolder) -> bool:
    """Return True if the next service resumes the run."""
    runs = Runs(folder.path.parent)
    runs.resume_stopped()
    return [run.name for run in runs.started()] == ["one"]


def test_a_run_that_ends_hard_again_and_again_is_given_up(lost: RunFolder) -> None:
    assert [next_service(lost) for _ in range(7)] == [True] * 5 + [False] * 2
    status = lost.read_status()
    assert status.state == "failed"
    assert "several times before a new checkpoint" in status.message
    runs = Runs(lost.path.parent)
    runs.resume("one")
    assert next_service(lost), "who resumes it by hand gives it as many tries again"


def test_a_new_checkpoint_gives_new_tries(lost: RunFolder) -> None:
    for step in range(1, 9):
        (lost.checkpoints / "sft" / f"checkpoint-{step}").mkdir(parents=True)
        assert next_service(lost)


@pytest.mark.parametrize("state", ["finished", "failed", "unreadable"])
def test_a_run_that_came_to_its_end_stays_there(lost: RunFolder, state: str) -> None:
    lost.write_status(RunStatus(state=state))
    assert not next_service(lost)


def test_a_run_of_a_command_is_left_alone(lost: RunFolder) -> None:
    (lost.path / ".started").unlink()
    assert not next_service(lost)
