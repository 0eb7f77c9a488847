"""A killed process is killed for real, once, and noted until it is back."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay_shared.errors import Conflict, NotFound
from assay_trainer.service.demo.kills import ProcessKills
from tests.support.planted_mesh import PlantedMesh


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[PlantedMesh]:
    mesh = PlantedMesh(tmp_path)
    yield mesh
    mesh.close()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it does not come")


async def test_a_kill_is_noted_until_the_process_is_back(mesh: PlantedMesh) -> None:
    kills = ProcessKills(mesh)
    child = mesh.children["worker-1"]
    killed = kills.kill("worker-1")
    assert child.wait(10) == -signal.SIGKILL
    assert (killed.pid, killed.back_s, killed.is_lost) == (child.pid, None, False)
    with pytest.raises(Conflict, match="not back yet"):
        kills.kill("worker-1")
    mesh.restart()
    await until(lambda: killed.back_s is not None)
    again = kills.kill("worker-1")
    assert again.pid != killed.pid
    assert kills.done == [again, killed], "the newest first"
    mesh.children["worker-1"].wait(10)
    kills.close()


async def test_a_process_that_stays_away_is_told(
    mesh: PlantedMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay_trainer.service.demo.kills._BACK_WITHIN_S", 0.1)
    killed = ProcessKills(mesh).kill("worker-1")
    await until(lambda: killed.is_lost)
    assert killed.back_s is None


async def test_the_trainer_and_unknown_processes_are_not_killed(mesh: PlantedMesh) -> None:
    kills = ProcessKills(mesh)
    assert kills.names == ["sandbox", "worker-1"]
    for name in ("trainer", "worker-2", "", "../worker-1"):
        with pytest.raises(NotFound):
            kills.kill(name)
    assert [child.poll() for child in mesh.children.values()] == [None, None, None]
