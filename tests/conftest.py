"""Shared by all tests: a clean environment, real servers, a tiny policy."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import uvicorn
from fastapi import FastAPI
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from tests.support.valkey import TestValkey


# A shell's background job ignores Ctrl-C, and so would the commands that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
#: Policies of tests lie wherever pytest keeps its folders.
os.environ["ASSAY_INFERENCE_WEIGHT_ROOTS"] = "/"
_KEPT = {"ASSAY_DATA", "ASSAY_INFERENCE_WEIGHT_ROOTS"}


class Together(LoadScopeScheduling):  # type: ignore[misc]  # it publishes no types
    """Keep a file's tests in a process; also all tests with the mesh, and all with the sandbox."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        groups = {"tests/integration/": "mesh", "sandbox": "sandbox"}
        return next((name for part, name in groups.items() if part in path), path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked `nightly`, unless ASSAY_NIGHTLY is set."""
    if "ASSAY_NIGHTLY" in os.environ:
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="part of make nightly: ASSAY_NIGHTLY=1"))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's shell reaches a test, but for the data folder."""
    for variable in os.environ:
        if variable.startswith("ASSAY_") and variable not in _KEPT:
            monkeypatch.delenv(variable)
    # Tests of isolation name the level they need; the others run wherever there is one.
    monkeypatch.setenv("ASSAY_SANDBOX_MINIMUM_ISOLATION", "fallback")


@pytest.fixture(autouse=True)
def clean_log_level() -> Iterator[None]:
    """Undo the level of the root logger that a command sets in this process."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


@pytest.fixture
def data_folder() -> Path:
    """Return the folder with real datasets; skip the test without such a folder."""
    folder = os.environ.get("ASSAY_DATA")
    if not folder:
        pytest.skip("needs real data: set ASSAY_DATA to a folder with HumanEval.jsonl.gz")
    return Path(folder)


Serve = Callable[[FastAPI], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve apps over real HTTP on free ports of loopback; return each app's address."""
    with _serving() as start:
        yield start


@pytest.fixture(scope="module")
def serve_for_all() -> Iterator[Serve]:
    """As `serve`, until the module's last test."""
    with _serving() as start:
        yield start


@contextmanager
def _serving() -> Iterator[Serve]:
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(app: FastAPI) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        servers.append((server, thread))
        wait_until(lambda: server.started or not thread.is_alive(), "the server to start", 400)
        assert server.started, "the server did not start"
        return "http://{}:{}".format(*listener.getsockname())

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive(), "a server does not stop"


class SandboxProcess(NamedTuple):
    """Return a sandbox service on its own port."""

    process: "subprocess.Popen[str]"
    url: str


@contextmanager
def running_sandbox(**environment: str) -> Iterator[SandboxProcess]:
    """Killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "assay_shared.cli", "sandbox", "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    assert process.stderr is not None
    url = ""
    while not url:
        message = json.loads(process.stderr.readline())["message"]
        if "listening on" in message:
            url = message.split()[-1]
    # A full pipe would block the sandbox at its next log line.
    drain = threading.Thread(target=deque, args=(process.stderr, 0), daemon=True)
    drain.start()
    yield SandboxProcess(process, url)
    process.kill()
    process.wait()
    drain.join(10)
    process.stderr.close()


@pytest.fixture
def sandbox_process() -> Iterator[SandboxProcess]:
    with running_sandbox() as process:
        yield process


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = 120.0) -> None:
    """Return once `condition` holds; fail with the name `what` of the condition.

    Without a time that a promise names, give enough for a machine that is five times slower.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def shared_valkey() -> Iterator["TestValkey"]:
    yield from _run_valkey()


@pytest.fixture
def valkey(shared_valkey: "TestValkey") -> "TestValkey":
    """Return a real, empty Valkey."""
    shared_valkey.clear()
    return shared_valkey


@pytest.fixture
def own_valkey() -> Iterator["TestValkey"]:
    """Return a Valkey for a test to kill or stop."""
    yield from _run_valkey()


def _run_valkey() -> Iterator["TestValkey"]:
    from tests.support.valkey import TestValkey

    server = TestValkey()
    yield server
    server.stop()
