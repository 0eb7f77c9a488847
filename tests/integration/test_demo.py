"""The demo and `assay up` as commands, with another copy running in the same place."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from assay_shared.local.launcher import Launcher
from tests.conftest import wait_until
from tests.support.runs import QUICK

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command; end leftovers of a failed test."""
    processes = []

    def start(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "assay_shared.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env=os.environ | environment,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=30)


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_the_demo_shows_reports_and_leaves_nothing(mesh: Launcher, start: Start) -> None:
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


def status_of(url: str, token: str = "") -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def finished(process: "subprocess.Popen[str]") -> str:
    """Return the output of a command; it must succeed."""
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return str(output).strip()


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
    home = tmp_path / "home"
    for secret in ("token", "keys.json", "assay.env"):
        assert stat.S_IMODE((home / secret).stat().st_mode) == 0o600, secret
    rubrics = address.group(1) + "/v1/rubrics"
    assert status_of(rubrics) == 401
    # Commands in the same folder find it.
    link = finished(start("dashboard", ASSAY_RUNS="home"))
    opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opened.open(link, timeout=20) as answer:
        assert "<title>Assay</title>" in answer.read().decode()
    made = finished(start("keys", "make", "alice", "--scope", "reward:read", ASSAY_RUNS="home"))
    wait_until(lambda: status_of(rubrics, made) == 200, "the key to be known", timeout_s=10)
    finished(start("keys", "revoke", "alice", ASSAY_RUNS="home"))
    wait_until(lambda: status_of(rubrics, made) == 401, "the key to be gone", timeout_s=10)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert output.rstrip().endswith("stopped")
    assert f"token      {(home / 'token').read_text().strip()}" in output
    assert not variables.exists()
    assert [p for p in seen if alive(p)] == []
