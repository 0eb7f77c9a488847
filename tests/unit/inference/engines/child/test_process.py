"""Traces of a child after its unexpected end: the cause in a line, and the end of its log."""

import logging
import os
import sys
from pathlib import Path

import pytest

from assay_inference.engines.child.process import ServerProcess
from assay_shared.runtime.temporary_folder import TemporaryFolder
from tests.conftest import wait_until

#: As vLLM 0.32.0 writes it: a worker fails, then all that waited for it.
WORKER_FAILS = """\
INFO 11-22 02:53:37 [system_utils.py:255] the limit's error is `OSError: [Errno 24]`
(VllmWorker-0 pid=3) ERROR 11-22 02:53:58 [executor.py:953] Traceback (most recent call last):
(VllmWorker-0 pid=3) ERROR 11-22 02:53:58 [executor.py:953]     raise ValueError(
(VllmWorker-0 pid=3) ERROR 11-22 02:53:58 [executor.py:953] ValueError: 20 GiB are less than 21
(EngineCore pid=2) ERROR 11-22 02:54:00 [core.py:1510] Exception: WorkerProc initialization failed
Traceback (most recent call last):
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above.
"""
LOGS = {
    WORKER_FAILS: "ValueError: 20 GiB are less than 21 | "
    "RuntimeError: Engine core initialization failed. See root cause above.",
    "up\ntorch.OutOfMemoryError: no 2 GiB\n": "torch.OutOfMemoryError: no 2 GiB",
    "one\n[10:00] ERROR no such model\ntwo\nthree\n": "[10:00] ERROR no such model",
    "one\ntwo\nthree\n": "two | three",
    "": "its log is empty",
}


def start(parent: Path, code: str) -> ServerProcess:
    folder = TemporaryFolder("child-", parent)
    return ServerProcess(folder, [sys.executable, "-c", code], os.environ)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log[:20])
def test_the_cause_is_what_was_raised_first(tmp_path: Path, log: str) -> None:
    process = start(tmp_path, f"print({log!r}, end='', flush=True); raise SystemExit(3)")
    wait_until(lambda: not process.is_running(), "its end")
    assert process.last_words() == LOGS[log]
    process.kill()


def test_the_log_of_one_that_ended_by_itself_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process = start(tmp_path, f"print({WORKER_FAILS!r}); raise SystemExit(3)")
    wait_until(lambda: not process.is_running(), "its end")
    process.kill()
    assert "raise ValueError(" in caplog.text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("grace_s", [0.0, 10.0])
def test_one_that_was_ended_leaves_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, grace_s: float
) -> None:
    caplog.set_level(logging.WARNING)
    process = start(tmp_path, "import time\nprint('up', flush=True)\ntime.sleep(60)")
    wait_until(lambda: process.last_words() == "up", "its start")
    process.end(grace_s)
    assert not process.is_running()
    assert caplog.text == ""
    assert not list(tmp_path.iterdir())
