"""Starts at the service: limited, queued in order, stoppable while they wait. And its list."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from assay_shared.clients.trainer import RunRequest
from assay_shared.errors import Conflict, InvalidInput, Overloaded
from assay_shared.runs import run_lock
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.runtime.processes import spawn
from assay_trainer import config as trainer_config
from assay_trainer.service import runs as module
from assay_trainer.service.runs import Runs
from tests.conftest import wait_until

DEMO = yaml.safe_load((Path(trainer_config.__file__).parent / "service" / "demo.yaml").read_text())


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """A single run at once; in place of a trainer, a process that waits for its stop."""

    def wait(command: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
        return spawn((sys.executable, "-c", "import time; time.sleep(100)"), log=log)

    monkeypatch.setattr(module, "spawn", wait)
    runs = Runs(tmp_path, stop_grace_s=10, max_running=1, max_waiting=2)
    yield runs
    runs.close()


def start(runs: Runs, *names: str) -> list[tuple[str, int | None]]:
    infos = [runs.start(RunRequest(name=name, config=DEMO)) for name in names]
    return [(info.status.state, info.queue_position) for info in infos]


def end(runs: Runs, name: str) -> None:
    runs.stop(name)
    wait_until(lambda: name not in runs.running(), f"{name} to end")


def test_runs_beyond_the_limit_wait_in_order_and_say_where(runs: Runs, tmp_path: Path) -> None:
    assert start(runs, "a", "b", "c") == [("running", None), ("queued", 1), ("queued", 2)]
    with pytest.raises(Overloaded, match="2 runs wait already"):
        start(runs, "d")
    assert not (tmp_path / "d").exists()
    with pytest.raises(Conflict, match="waits to be started"):
        runs.resume("c")
    runs.start_next()
    assert list(runs.running()) == ["a"]
    end(runs, "a")
    runs.start_next()
    assert list(runs.running()) == ["b"]
    assert runs.info("c").queue_position == 1
    assert runs._is_alive("c"), "who follows it waits with it"
    with pytest.raises(Conflict, match="run b is running"):
        runs.resume("b")


def test_a_run_can_be_stopped_while_it_waits_and_resumed_later(runs: Runs) -> None:
    start(runs, "a", "b", "c")
    assert runs.stop("b").status.state == "stopped"
    assert runs.info("c").queue_position == 1
    assert [e.kind for e in RunFolder(Path(runs.info("b").folder)).read_events()] == ["run_stopped"]
    assert runs.resume("b").queue_position == 2


def test_the_next_service_has_the_queue_of_the_last_in_order(runs: Runs, tmp_path: Path) -> None:
    start(runs, "a", "z", "b")
    runs.close()
    following = Runs(tmp_path, max_running=0)
    following.resume_stopped()
    waiting = {run.name: run.queue_position for run in following.list()}
    assert sorted(waiting.values(), key=str) == [1, 2, 3]
    assert waiting["z"] is not None
    assert waiting["b"] is not None
    assert waiting["z"] < waiting["b"]


def test_a_run_of_a_command_is_shown_as_running_and_left_to_it(runs: Runs, tmp_path: Path) -> None:
    start(runs, "a")
    end(runs, "a")
    folder = RunFolder(tmp_path / "a")
    folder.write_status(RunStatus(state="running", stage="grpo", step=3))
    assert runs.info("a").status.state == "failed"
    with run_lock.held(folder.path):
        assert runs.info("a").status.state == "running"
        for call in (runs.resume, runs.stop):
            with pytest.raises(Conflict, match="run a belongs to process"):
                call("a")


def test_one_unreadable_run_does_not_hide_the_others(runs: Runs, tmp_path: Path) -> None:
    start(runs, "a", "b")
    (tmp_path / "b" / "status.json").write_text("garbage{")
    runs.stop("b")  # not in the queue any more: what is in its file counts
    (tmp_path / "b" / "status.json").write_bytes(b"\xff\x00")
    (tmp_path / "b" / "events.jsonl").write_bytes(b'garbage{\n{"time":1,"kind":"x"}\n\xff\n')
    states = {run.name: run.status for run in runs.list()}
    assert states["a"].state == "running"
    assert states["b"].state == "unreadable"
    assert "status.json cannot be read" in states["b"].message
    assert [event.kind for event in RunFolder(tmp_path / "b").read_events()] == ["x"]
    assert runs.resume("b").queue_position == 1, "its status is written again"


@pytest.mark.parametrize(
    "name",
    ["a\nb", "a\u202eb", "%2e%2e", "a b", "-a", "a\n", "\u0430", "a\x00", "x" * 101, "a/../b"],
)
def test_names_that_could_fool_somebody_are_refused(runs: Runs, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="is not a valid run name"):
        start(runs, name)
    with pytest.raises(InvalidInput, match="is not a valid run name"):
        runs.info(name)
    with pytest.raises(InvalidInput, match="is not a valid run name"):
        RunFolder.create(tmp_path / name.replace("/", "\n"))
    assert list(tmp_path.iterdir()) == []
