"""Programs under the guard end with their starter."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from assay_shared.runtime import guard
from tests.conftest import wait_until

_FAMILY = "sleep 1000 & echo $! $$; wait"


def start(command: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-I", guard.__file__, "sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_grandchildren_and_stopped_processes_end_with_its_input(tmp_path: Path) -> None:
    process = start(_FAMILY)
    assert process.stdin is not None
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    os.kill(pids[1], signal.SIGSTOP)
    process.stdin.close()
    process.wait(timeout=10)
    wait_until(lambda: all(is_gone(pid) for pid in pids), "all to end", 10)
    process.stdout.close()


def test_its_exit_is_the_commands(tmp_path: Path) -> None:
    process = start("exit 7")
    assert process.wait(timeout=10) == 7
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
