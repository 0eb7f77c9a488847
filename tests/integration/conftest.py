"""A mesh of real processes for all integration tests, and a breakable LLM of the judge."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import uvicorn
import yaml
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from assay_shared.local.launcher import Launcher, running_services
from assay_shared.runs.run_folder import Event, RunFolder
from tests.conftest import wait_until
from tests.support.executor_model import ExecutorModel, Skill
from tests.support.runs import LOOKUP_SFT
from tests.support.upstream import says, verdict

_ANSWER = re.compile(r"<reference>\n(.*?)\n</reference>.*<answer>\n(.*?)\n</answer>", re.DOTALL)


class JudgeModel:
    """An LLM endpoint: it compares answer and reference, and never answers some questions.

    The question's text decides, so asking again does not help.
    """

    def __init__(self) -> None:
        self.silent_share = 0.0
        self.num_asked = 0
        self.app = FastAPI()

        @self.app.post("/v1/chat/completions")
        async def complete(request: Request) -> JSONResponse:
            self.num_asked += 1
            prompt = (await request.json())["messages"][0]["content"]
            found = _ANSWER.search(prompt)
            assert found is not None
            if zlib.crc32(found.group().encode()) / 2**32 < self.silent_share:
                return JSONResponse(says(None))
            same = found.group(1).strip() == found.group(2).strip()
            return JSONResponse(verdict("CORRECT" if same else "INCORRECT"))


@contextmanager
def _served(app: FastAPI) -> Iterator[str]:
    """Serve a model's app in a thread; yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield "http://{}:{}".format(*listener.getsockname())
    server.should_exit = True
    thread.join(timeout=60)


@pytest.fixture(scope="session")
def judge_model() -> Iterator[tuple[JudgeModel, str]]:
    """The model and its address."""
    model = JudgeModel()
    with _served(model.app) as url:
        yield model, url


@pytest.fixture(scope="session")
def executor_model() -> Iterator[tuple[ExecutorModel, str]]:
    """The model that carries workflows out, and its address."""
    model = ExecutorModel(answer_generate=Skill(0.35, 60), programmer=Skill(0.95, 90))
    with _served(model.app) as url:
        yield model, url


@pytest.fixture(scope="session")
def mesh(
    tmp_path_factory: pytest.TempPathFactory,
    judge_model: tuple[JudgeModel, str],
    executor_model: tuple[ExecutorModel, str],
) -> Iterator[Launcher]:
    """Everything up. Tests may kill parts; `mesh.watch()` starts them again."""
    home = tmp_path_factory.mktemp("mesh")
    # It fails on purpose, and is to be asked all the same.
    provider = {"kind": "openai", "name": "model", "model": "m", "attempts": 1, "open_after": 10**6}
    config = home / "judge.yaml"
    config.write_text(yaml.safe_dump({"chain": [provider | {"base_url": judge_model[1] + "/v1"}]}))
    executor = home / "executor.yaml"
    model = {"name": "scripted", "model": "m", "base_url": executor_model[1] + "/v1"}
    executor.write_text(yaml.safe_dump({"models": [model]}))
    settings = {
        "ASSAY_JUDGE_CONFIG": str(config),
        "ASSAY_EXECUTOR_CONFIG": str(executor),
        "ASSAY_REWARD_RETRY_BUDGET_S": "2",
    }
    with running_services(home, settings=settings) as mesh:
        yield mesh
        names = mesh.processes
    left = [name for name, pid in names.items() if psutil.pid_exists(pid)]
    assert not left, f"left behind: {left}"


@pytest.fixture(autouse=True)
def mended(mesh: Launcher, judge_model: tuple[JudgeModel, str]) -> Iterator[None]:
    """Repair the damage of each test for the next."""
    yield
    judge_model[0].silent_share = 0.0
    mesh.watch()


class Assay:
    """The command line, against the mesh."""

    def __init__(self, mesh: Launcher) -> None:
        self.mesh = mesh
        self.environment = os.environ | mesh.environment

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "assay_shared.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment | environment,
        )

    def run(self, *arguments: str, timeout_s: float = 900) -> str:
        """Return the output of a successful command, with the mesh watched meanwhile."""
        process = self.start(*arguments)
        output = self.finish(process, timeout_s)
        assert process.returncode == 0, output
        return output

    def finish(self, process: "subprocess.Popen[str]", timeout_s: float = 900) -> str:
        """Wait for a process, restarting processes killed by it or a test."""
        chunks: list[str] = []
        assert process.stdout is not None
        reader = threading.Thread(target=lambda: chunks.append(process.stdout.read()))  # type: ignore[union-attr]
        reader.start()

        def ended() -> bool:
            self.mesh.watch()
            return process.poll() is not None

        try:
            wait_until(ended, "a command to end", timeout_s)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            reader.join()
            process.stdout.close()
        return "".join(chunks)


@pytest.fixture(scope="session")
def assay(mesh: Launcher) -> Assay:
    return Assay(mesh)


def demo_file() -> str:
    from assay_trainer import config

    return str(Path(config.__file__).parent / "service" / "demo.yaml")


@pytest.fixture(scope="session")
def warm(assay: Assay, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return overrides to start a run from a policy able to do some lookups, without SFT."""
    folder = tmp_path_factory.mktemp("warm") / "run"
    assay.run("train", demo_file(), *LOOKUP_SFT, "--folder", str(folder))
    return (f"policy={{folder: {folder / 'models' / 'sft'}}}", "sft=null")


def wait_for_event(
    folder: Path,
    kind: str,
    timeout_s: float = 400,
    meanwhile: Callable[[], object] = lambda: None,
    **data: object,
) -> Event:
    """Return the first event of a kind with these values; call `meanwhile` all the time."""
    found: list[Event] = []

    def seen() -> bool:
        meanwhile()
        for event in RunFolder(folder).read_events():
            if event.kind == kind and data.items() <= event.data.items():
                found.append(event)
        return bool(found)

    wait_until(seen, f"{kind} with {json.dumps(data)} in {folder}", timeout_s)
    return found[0]
