"""Workers and reward services are replaced in turn under a continuing run."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from assay_shared.local.launcher import Launcher
from assay_shared.runs.run_folder import RunFolder
from assay_shared.runtime.processes import end, last_lines, spawn
from tests.conftest import wait_until
from tests.integration.conftest import Assay, demo_file, wait_for_event
from tests.integration.test_kills import check_groups
from tests.support.balancer import balanced
from tests.support.ports import free_port
from tests.support.runs import LOOKUP

GRACE_S = "5"


class Fleet:
    """Two reward services behind a balancer, and two independent workers."""

    def __init__(self, mesh: Launcher, folder: Path) -> None:
        self._environment = os.environ | mesh.environment | {"ASSAY_SHUTDOWN_GRACE_S": GRACE_S}
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports = {f"reward-{i}": free_port() for i in range(2)}

    def start(self, url: str) -> None:
        self._environment |= {"ASSAY_REWARD_URL": url}
        for name in (*self.ports, "worker-0", "worker-1"):
            self._start(name)

    def _start(self, name: str) -> None:
        kind = name.partition("-")[0]
        options = ("serve", "--port", str(self.ports[name])) if kind == "reward" else ()
        command = [sys.executable, "-m", "assay_shared.cli", kind, *options]
        log = self._folder / f"{name}.log"
        self._processes[name] = spawn(command, log=log, environment=self._environment)
        words = "listening on" if kind == "reward" else "ready."
        seen = log.read_text().count(words) if log.exists() else 0
        wait_until(lambda: log.read_text().count(words) > seen, f"{name} to be ready", 200)

    def replace(self, name: str) -> None:
        """As an orchestrator does: ask it to end, wait, start the next."""
        process = self._processes[name]
        os.kill(process.pid, signal.SIGTERM)
        wait_until(lambda: process.poll() is not None, f"{name} to end", 100)
        assert process.returncode in (0, -signal.SIGTERM), last_lines(
            self._folder / f"{name}.log", 5
        )
        self._start(name)

    def stop(self) -> None:
        end(list(self._processes.values()), 20)


@contextmanager
def without_the_meshs_workers(mesh: Launcher) -> Iterator[None]:
    names = [name for name in mesh.processes if name.startswith("worker")]
    with ExitStack() as stack:
        for name in names:
            mesh.stop_part(name)
            stack.callback(mesh.start_part, name)
        yield


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_rolling_update_in_mid_run_costs_no_group_and_no_sample(
    assay: Assay, mesh: Launcher, tmp_path: Path
) -> None:
    """Each process is replaced once while steps continue; nothing fails meanwhile."""
    folder = tmp_path / "rolling"
    fleet = Fleet(mesh, tmp_path)
    num_steps = 12
    sizes = ("grpo.groups_per_step=8", "grpo.group_size=8", "grpo.max_groups_per_step=64")
    settings = (*LOOKUP, *sizes, f"grpo.steps={num_steps}", "grpo.checkpoint_every=4")
    with without_the_meshs_workers(mesh), balanced(list(fleet.ports.values())) as url:
        fleet.start(url)
        try:
            process = assay.start("train", demo_file(), *settings, "--folder", str(folder))
            wait_for_event(folder, "step", timeout_s=400, meanwhile=mesh.watch, step=1)
            for victim in ("worker-0", "reward-0", "worker-1", "reward-1"):
                assert process.poll() is None, "the run was over too soon to say anything"
                fleet.replace(victim)
            output = assay.finish(process)
        finally:
            fleet.stop()
    assert process.returncode == 0, output
    check_groups(mesh, folder, num_steps)
    steps = [event.data for event in RunFolder(folder).read_events() if event.kind == "step"]
    assert [step["failures"] for step in steps] == [{}] * num_steps, "a sample failed"
