"""Launcher of Assay on one machine: an embedded Valkey, the services and workers.

Each part is a process; the launcher restarts a dead process, within a budget. The launcher opens
the listening sockets and passes them down, so a restart keeps its port.
"""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis

from assay_shared.clients import (
    InferenceClient,
    JudgeClient,
    RetryBudget,
    RewardClient,
    SandboxClient,
    ServiceClient,
    TrainerClient,
)
from assay_shared.errors import ConfigError, Conflict, InfrastructureError, NotFound
from assay_shared.local.listeners import (
    SERVICES,
    address_of,
    free_listeners,
    open_listeners,
    url_of,
)
from assay_shared.runs.run_lock import held
from assay_shared.runtime.processes import end, last_lines, spawn
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.service.server import bind
from assay_shared.settings.environment import ServiceSettings, read_settings

_log = logging.getLogger(__name__)

CLIENTS: dict[str, type[ServiceClient]] = {
    client.service: client
    for client in (InferenceClient, SandboxClient, JudgeClient, RewardClient, TrainerClient)
}
_REDIS_TIMEOUT_S = 5.0
_START_TIMEOUT_S = 180.0
_STOP_GRACE_S = 30.0
_MAX_RESTARTS = 5
_RESTART_WINDOW_S = 120.0
#: Restarts that `crash_part` leaves for other crashes.
_SPARE_RESTARTS = 1
_CLI = (sys.executable, "-m", "assay_shared.cli")
#: Not the lock of a run, which may have the same folder.
_LOCK = "services.lock"


class LaunchFailed(InfrastructureError):
    """A process of the mesh ended at its start, or too often."""


@dataclass
class ManagedProcess:
    """One process of the mesh: its command, and the times of its starts."""

    name: str
    command: tuple[str, ...]
    listener: socket.socket | None = None
    #: Variables added to the environment of the mesh.
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    starts: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_RESTARTS + 1))


class Launcher:
    """Starts, watches and ends the processes; `environment` holds their addresses."""

    def __init__(
        self,
        home: Path,
        *,
        num_workers: int,
        usual_ports: bool,
        services: Collection[str] = SERVICES,
        num_inference_replicas: int = 1,
        settings: Mapping[str, str] | None = None,
        on_port_taken: Callable[[str], None] = _log.info,
    ) -> None:
        """Open the listening sockets; `start` starts the processes.

        Args:
            home: folder for logs, runs and Valkey's files.
            services: names of the services to start. Valkey starts with the trainer alone.
            usual_ports: take the addresses of the environment. A service without one takes its
                usual port if that is free; Redis without one is an embedded Valkey.
            settings: variables for the services, added to the addresses.
            on_port_taken: gets a sentence for each usual port that is in use.

        Raises:
            ConfigError: an address of the environment is not of this machine, or is in use; or its
                Redis does not answer.
        """
        self.home = home.resolve()
        self.logs = self.home / "logs"
        given = _given_redis() if usual_ports else {}
        listeners = _listeners(services, on_port_taken, usual_ports=usual_ports)
        # A socket's path may have at most 107 characters; a path under `home` could be longer.
        self._socket_folder = TemporaryFolder("assay-socket-")
        self.urls = {name: url_of(listener) for name, listener in listeners.items()}
        self.environment = dict(settings or {}) | self._environment() | given
        if given and "ASSAY_REDIS_URL" not in given:
            del self.environment["ASSAY_REDIS_URL"]
        replicas = self._replicas(num_inference_replicas)
        self._parts = [
            *([] if given or "trainer" not in services else [self._valkey()]),
            *replicas,
            *(self._service(name, listener) for name, listener in listeners.items()),
            *(ManagedProcess(f"worker-{i + 1}", (*_CLI, "worker")) for i in range(num_workers)),
        ]
        if replicas:  # the address known to the other services belongs to the router
            router = self._part("inference")
            router.environment = {
                "ASSAY_INFERENCE_ENGINE": "replicas",
                "ASSAY_INFERENCE_REPLICAS": ",".join(map(_url, replicas)),
            }

    def _environment(self) -> dict[str, str]:
        return {
            **{f"ASSAY_{name.upper()}_URL": url for name, url in self.urls.items()},
            "ASSAY_REDIS_URL": f"unix://{self._socket_folder.path}/valkey.sock",
            "ASSAY_RUNS": str(self.home),
            # The user owns this machine and the policy; /health reports the isolation reached.
            "ASSAY_SANDBOX_MINIMUM_ISOLATION": "fallback",
            # OpenMP threads that spin while they wait take cores from other processes: a GRPO
            # step was three times slower on two cores shared with inference and sandbox.
            "GOMP_SPINCOUNT": "1000",
        }

    def _valkey(self) -> ManagedProcess:
        folder = self.home / "valkey"
        folder.mkdir(parents=True, exist_ok=True)
        path = self._socket_folder.path / "valkey.sock"
        command = (sys.executable, "-m", "assay_shared.local.valkey", str(path), str(folder))
        return ManagedProcess("valkey", command)

    def _service(self, name: str, listener: socket.socket) -> ManagedProcess:
        return ManagedProcess(name, (*_CLI, name, "serve"), listener)

    def _replicas(self, number: int) -> list[ManagedProcess]:
        """Return the inference replicas, or none if `number` is 1."""
        return [
            ManagedProcess(
                f"inference-{i + 1}", (*_CLI, "inference", "serve"), bind("127.0.0.1", 0)
            )
            for i in range(number if number > 1 else 0)
        ]

    @property
    def processes(self) -> dict[str, int]:
        """Ids of the running processes by name."""
        return {part.name: part.process.pid for part in self._parts if part.process is not None}

    def start(self, on_ready: Callable[[str, str], None] = lambda name, url: None) -> None:
        """Start everything and wait until all services answer; report each to `on_ready`.

        Raises:
            LaunchFailed: a process ended.
            InfrastructureError: a service did not answer in time.
        """
        for part in self._parts:
            self._spawn(part)
        asyncio.run(self._wait_for_all(on_ready))

    async def _wait_for_all(self, on_ready: Callable[[str, str], None]) -> None:
        async def wait(name: str, url: str) -> None:
            await self.wait_for(name)
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
        """Restart ended processes; call this a few times a second.

        Raises:
            LaunchFailed: a process ended more than `_MAX_RESTARTS` times in `_RESTART_WINDOW_S`.
        """
        for part in self._parts:
            if part.process is None or part.process.poll() is None:
                continue
            now = time.monotonic()
            if len(part.starts) > _MAX_RESTARTS and now - part.starts[0] < _RESTART_WINDOW_S:
                raise self._failed(part)
            _log.warning("%s ended with %s: starting it again", part.name, part.process.returncode)
            self._spawn(part)

    def crash_part(self, name: str) -> int:
        """Kill one process as a crash would, and return its id; `watch` starts it again.

        Raises:
            NotFound: no such process runs.
            Conflict: it was started too often, and further crashes would end the mesh.
        """
        part = next((part for part in self._parts if part.name == name), None)
        if part is None or part.process is None or part.process.poll() is not None:
            raise NotFound(f"no process {name!r:.80} runs")
        now = time.monotonic()
        num_recent = sum(now - at < _RESTART_WINDOW_S for at in tuple(part.starts))
        if num_recent >= _MAX_RESTARTS - _SPARE_RESTARTS:
            raise Conflict(
                f"{name} was started {num_recent} times within {_RESTART_WINDOW_S:.0f} s",
                hint="wait a minute or two",
            )
        part.process.kill()
        return part.process.pid

    def stop_part(self, name: str) -> None:
        """End one process and refuse its connections until `start_part`."""
        part = self._part(name)
        if part.process is not None:
            end([part.process], _STOP_GRACE_S)
        part.process = None
        if part.listener is not None:
            part.listener.close()

    def kill_part(self, name: str) -> None:
        """Kill one process at once (SIGKILL) and refuse its connections until `start_part`."""
        part = self._part(name)
        if part.process is not None:
            part.process.kill()
        self.stop_part(name)

    async def wait_for(self, name: str) -> None:
        """Wait until a service answers.

        Raises:
            InfrastructureError: it did not answer in time.
        """
        retry = RetryBudget(attempts=10_000, total_s=_START_TIMEOUT_S, max_wait_s=0.5)
        async with CLIENTS[name](self.urls[name], retry=retry) as client:
            await client.health()

    def start_part(self, name: str) -> None:
        """Start a stopped process again, at its old address."""
        part = self._part(name)
        if part.listener is not None:
            host, port = address_of(self.urls[name])
            part.listener = bind(host, port)
        self._spawn(part)

    def _part(self, name: str) -> ManagedProcess:
        return next(part for part in self._parts if part.name == name)

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
        """End everything: callers before the services they call, Valkey last."""
        for rank in sorted({_rank(part) for part in self._parts}):
            parts = [part for part in self._parts if _rank(part) == rank]
            end([part.process for part in parts if part.process is not None], _STOP_GRACE_S)
        for part in self._parts:
            part.process = None
            if part.listener is not None:
                part.listener.close()
        self._socket_folder.remove()


def _listeners(
    services: Collection[str], on_port_taken: Callable[[str], None], *, usual_ports: bool
) -> dict[str, socket.socket]:
    if usual_ports:
        return open_listeners(os.environ, on_port_taken, services)
    return free_listeners(services)


def _given_redis() -> dict[str, str]:
    """Return the variables of the environment that name a Redis.

    Raises:
        ConfigError: it does not answer: an earlier `assay up` may have left the variable.
    """
    names = ("ASSAY_REDIS_URL", "ASSAY_REDIS_URL_FILE")
    found = {name: value for name in names if (value := os.environ.get(name))}
    if found:
        url = read_settings(ServiceSettings).redis_url
        try:
            with redis.Redis.from_url(url, socket_timeout=_REDIS_TIMEOUT_S) as client:
                client.ping()
        except (redis.RedisError, ValueError) as error:
            raise ConfigError(
                f"no Redis: {error}", field=min(found), hint="unset it for an embedded Valkey"
            ) from None
    return found


def _url(part: ManagedProcess) -> str:
    assert part.listener is not None
    return url_of(part.listener)


def _rank(part: ManagedProcess) -> int:
    """Return the place of a part in the order of stopping: the trainer first, Valkey last."""
    if part.name.startswith("worker"):
        return 1
    return {"trainer": 0, "valkey": 3}.get(part.name, 2)


@contextmanager
def running_services(
    home: Path,
    *,
    num_workers: int = 2,
    usual_ports: bool = False,
    services: Collection[str] = SERVICES,
    num_inference_replicas: int = 1,
    settings: Mapping[str, str] | None = None,
    on_ready: Callable[[str, str], None] = lambda name, url: None,
    on_port_taken: Callable[[str], None] = _log.info,
) -> Iterator[Launcher]:
    """Run a mesh within the block, and yield its launcher.

    Raises:
        Conflict: another process runs a mesh in `home`.
        ConfigError: see `Launcher`.
    """
    home = home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    with held(home, f"the folder {home} with its services", _LOCK):
        mesh = Launcher(
            home,
            num_workers=num_workers,
            usual_ports=usual_ports,
            services=services,
            num_inference_replicas=num_inference_replicas,
            settings=settings,
            on_port_taken=on_port_taken,
        )
        try:
            mesh.start(on_ready)
            yield mesh
        finally:
            mesh.stop()
