"""The demo and `assay up` as commands, beside another copy that is running."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from assay_shared.mesh import Mesh
from tests.conftest import wait_until
from tests.integration.runs import QUICK

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a command; what a failed test leaves running is ended."""
    processes = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "assay_shared.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=30)


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_the_demo_shows_reports_and_leaves_nothing(mesh: Mesh, start: Start) -> None:
    """`mesh` is the other copy."""
    process = start("demo", *QUICK, "--home", "home")
    wait_until(lambda: len(family(process)) >= 9, "all processes", timeout_s=60)
    seen = family(process)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    for word in ("SFT ...", "GRPO ...", "pass@1", "95% interval", "no process is left"):
        assert word in output
    report = re.search(r"^report: (\S+)$", output, re.MULTILINE)
    assert report is not None
    for suffix in (".md", ".html", ".json"):
        assert Path(report.group(1)).with_suffix(suffix).exists()
    assert [p for p in seen if p.is_running()] == []
    assert not [p for p in Path("/tmp").glob("assay-*/valkey.sock") if str(p) in output]


def test_a_demo_that_is_killed_takes_its_processes_along(start: Start) -> None:
    process = start("demo", *QUICK, "--home", "home")
    wait_until(lambda: len(family(process)) >= 9, "all processes", timeout_s=60)
    time.sleep(1)
    seen = family(process)
    process.kill()
    process.communicate(timeout=10)
    wait_until(lambda: not [p for p in seen if alive(p)], "all to end", timeout_s=40)


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_up_stays_until_it_is_told_to_stop(start: Start, tmp_path: Path) -> None:
    process = start("up", "--home", "home")
    variables = tmp_path / "home" / "assay.env"
    wait_until(variables.exists, "the services", timeout_s=90)
    seen = family(process)
    assert len(seen) >= 8
    address = re.search(r"ASSAY_REWARD_URL=(\S+)", variables.read_text())
    assert address is not None
    with urllib.request.urlopen(address.group(1) + "/ready", timeout=20) as answer:
        assert answer.status == 200
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert output.rstrip().endswith("stopped")
    assert [p for p in seen if alive(p)] == []
