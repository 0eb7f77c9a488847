"""All of Assay on one machine: an embedded Valkey, the five services and rollout workers.

Each is a process; one that dies is started again, within a budget. Listening sockets are made
here and handed down, so a port is chosen once and is never fought over.
"""

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from assay_shared.clients import (
    InferenceClient,
    JudgeClient,
    RetryBudget,
    RewardClient,
    SandboxClient,
    ServiceClient,
    TrainerClient,
)
from assay_shared.errors import ConfigError, InfrastructureError
from assay_shared.runtime.processes import end, last_lines, spawn
from assay_shared.service.server import bind

_log = logging.getLogger(__name__)

CLIENTS: dict[str, type[ServiceClient]] = {
    client.service: client
    for client in (InferenceClient, SandboxClient, JudgeClient, RewardClient, TrainerClient)
}
USUAL_PORTS = {
    "inference": 8001,
    "sandbox": 8002,
    "judge": 8003,
    "reward": 8004,
    "trainer": 8005,
}
_START_TIMEOUT_S = 180.0
_STOP_GRACE_S = 30.0
_MAX_RESTARTS = 5
_RESTART_WINDOW_S = 120.0
_CLI = (sys.executable, "-m", "assay_shared.cli")


class LaunchFailed(InfrastructureError):
    """A process of the mesh does not stay up."""


@dataclass
class ManagedProcess:
    """One process: how it is started, and when it was."""

    name: str
    command: tuple[str, ...]
    listener: socket.socket | None = None
    #: Variables beside those of the mesh.
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    starts: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_RESTARTS + 1))


class Launcher:
    """Starts, watches and ends the processes. `environment` is what finds them."""

    def __init__(
        self,
        home: Path,
        *,
        num_workers: int,
        usual_ports: bool,
        num_inference_replicas: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`home` gets logs, runs and Valkey's files; `usual_ports` are taken where free.

        `settings` are variables for the services, beside the addresses that are made here.
        """
        self.home = home.resolve()
        self.logs = self.home / "logs"
        # A socket's path may have no more than 107 characters: not under `home`.
        self._socket_folder = Path(tempfile.mkdtemp(prefix="assay-"))
        listeners = {name: _listen(name, usual_ports) for name in USUAL_PORTS}
        self.urls = {name: "http://{}:{}".format(*s.getsockname()) for name, s in listeners.items()}
        self.environment = dict(settings or {}) | self._environment()
        replicas = self._replicas(num_inference_replicas)
        self._parts = [
            self._valkey(),
            *replicas,
            *(self._service(name, listener) for name, listener in listeners.items()),
            *(ManagedProcess(f"worker-{i + 1}", (*_CLI, "worker")) for i in range(num_workers)),
        ]
        if replicas:  # the address that the others know is their router's
            router = next(part for part in self._parts if part.name == "inference")
            router.environment = {
                "ASSAY_INFERENCE_ENGINE": "replicas",
                "ASSAY_INFERENCE_REPLICAS": ",".join(map(_url, replicas)),
            }

    def _environment(self) -> dict[str, str]:
        return {
            **{f"ASSAY_{name.upper()}_URL": url for name, url in self.urls.items()},
            "ASSAY_REDIS_URL": f"unix://{self._socket_folder}/valkey.sock",
            "ASSAY_RUNS": str(self.home),
            # One's own machine, one's own policy: /health says what it came to.
            "ASSAY_SANDBOX_MINIMUM_ISOLATION": "fallback",
            # OpenMP threads that spin while they wait take the cores from their neighbours: a
            # GRPO step beside inference and sandbox on two cores was three times slower.
            "GOMP_SPINCOUNT": "1000",
        }

    def _valkey(self) -> ManagedProcess:
        folder = self.home / "valkey"
        folder.mkdir(parents=True, exist_ok=True)
        path = self._socket_folder / "valkey.sock"
        command = (sys.executable, "-m", "assay_shared.local.valkey", str(path), str(folder))
        return ManagedProcess("valkey", command)

    def _service(self, name: str, listener: socket.socket) -> ManagedProcess:
        return ManagedProcess(name, (*_CLI, name, "serve"), listener)

    def _replicas(self, number: int) -> list[ManagedProcess]:
        """Several that serve the policy, where it is more than one."""
        return [
            ManagedProcess(
                f"inference-{i + 1}", (*_CLI, "inference", "serve"), bind("127.0.0.1", 0)
            )
            for i in range(number if number > 1 else 0)
        ]

    @property
    def processes(self) -> dict[str, int]:
        """Process ids by name."""
        return {part.name: part.process.pid for part in self._parts if part.process is not None}

    def start(self, on_ready: Callable[[str, str], None] = lambda name, url: None) -> None:
        """Start everything and return once all services answer; `on_ready` hears of each.

        Raises:
            MeshFailed: a process ended, or a service did not answer in time.
        """
        for part in self._parts:
            self._spawn(part)
        asyncio.run(self._wait_for_all(on_ready))

    async def _wait_for_all(self, on_ready: Callable[[str, str], None]) -> None:
        async def wait(name: str, url: str) -> None:
            retry = RetryBudget(attempts=10_000, total_s=_START_TIMEOUT_S, max_wait_s=0.5)
            async with CLIENTS[name](url, retry=retry) as client:
                await client.health()
            on_ready(name, url)

        waiting = [asyncio.create_task(wait(name, url)) for name, url in self.urls.items()]
        while not all(task.done() for task in waiting):
            self._raise_if_dead()
            await asyncio.sleep(0.1)
        for task in waiting:
            task.result()

    def _raise_if_dead(self) -> None:
        for part in self._parts:
            if part.process is not None and part.process.poll() is not None:
                raise self._failed(part)

    def watch(self) -> None:
        """Start again what has ended; to be called a few times a second.

        Raises:
            MeshFailed: a process ends again and again.
        """
        for part in self._parts:
            if part.process is None or part.process.poll() is None:
                continue
            now = time.monotonic()
            if len(part.starts) > _MAX_RESTARTS and now - part.starts[0] < _RESTART_WINDOW_S:
                raise self._failed(part)
            _log.warning("%s ended with %s: starting it again", part.name, part.process.returncode)
            self._spawn(part)

    def stop_part(self, name: str) -> None:
        """End one process and refuse its connections until `start_part`."""
        part = next(part for part in self._parts if part.name == name)
        if part.process is not None:
            end([part.process], _STOP_GRACE_S)
        part.process = None
        if part.listener is not None:
            part.listener.close()

    def start_part(self, name: str) -> None:
        """Start one process that was stopped, at its old address."""
        part = next(part for part in self._parts if part.name == name)
        if part.listener is not None:
            part.listener = bind("127.0.0.1", int(self.urls[name].rpartition(":")[2]))
        self._spawn(part)

    def _failed(self, part: ManagedProcess) -> LaunchFailed:
        assert part.process is not None
        log = self.logs / f"{part.name}.log"
        shown = " | ".join(last_lines(log, 3)) or "its log is empty"
        code = part.process.returncode
        return LaunchFailed(f"{part.name} ended with {code}: {shown}", hint=str(log))

    def _spawn(self, part: ManagedProcess) -> None:
        part.starts.append(time.monotonic())
        socket_options = () if part.listener is None else ("--fd", str(part.listener.fileno()))
        part.process = spawn(
            (*part.command, *socket_options),
            log=self.logs / f"{part.name}.log",
            environment=os.environ | self.environment | part.environment,
            pass_fds=() if part.listener is None else (part.listener.fileno(),),
        )

    def stop(self) -> None:
        """End everything: those who ask before those who answer, Valkey last."""
        for rank in sorted({_rank(part) for part in self._parts}):
            parts = [part for part in self._parts if _rank(part) == rank]
            end([part.process for part in parts if part.process is not None], _STOP_GRACE_S)
        for part in self._parts:
            part.process = None
            if part.listener is not None:
                part.listener.close()
        shutil.rmtree(self._socket_folder, ignore_errors=True)


def _url(part: ManagedProcess) -> str:
    assert part.listener is not None
    return "http://{}:{}".format(*part.listener.getsockname())


def _rank(part: ManagedProcess) -> int:
    """In which order parts are ended: the trainer first, Valkey last."""
    if part.name.startswith("worker"):
        return 1
    return {"trainer": 0, "valkey": 3}.get(part.name, 2)


def _listen(name: str, usual_ports: bool) -> socket.socket:
    if usual_ports:
        try:
            return bind("127.0.0.1", USUAL_PORTS[name])
        except ConfigError:
            _log.info("port %d is in use: %s takes another", USUAL_PORTS[name], name)
    return bind("127.0.0.1", 0)


@contextmanager
def running_services(
    home: Path,
    *,
    num_workers: int = 2,
    usual_ports: bool = False,
    num_inference_replicas: int = 1,
    settings: Mapping[str, str] | None = None,
    on_ready: Callable[[str, str], None] = lambda name, url: None,
) -> Iterator[Launcher]:
    """A mesh that is up within the block and gone after it."""
    mesh = Launcher(
        home,
        num_workers=num_workers,
        usual_ports=usual_ports,
        num_inference_replicas=num_inference_replicas,
        settings=settings,
    )
    try:
        mesh.start(on_ready)
        yield mesh
    finally:
        mesh.stop()
