"""Processes of the demo that its page kills, and how long each is away."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from assay_shared.clients import RetryBudget
from assay_shared.errors import Conflict, InfrastructureError, NotFound
from assay_shared.local.launcher import CLIENTS

#: It holds the run's own process: with it, the run would end and resume.
_KEPT = "trainer"
_BACK_WITHIN_S = 180.0
_LOOK_EVERY_S = 0.1
#: Kills that are remembered and shown.
_MOST_KILLS = 100


class KillableMesh(Protocol):
    """The processes of a mesh, as the launcher has them; `home` is the folder of its runs."""

    home: Path
    urls: dict[str, str]

    @property
    def processes(self) -> Mapping[str, int]:
        """Ids of the running processes by name."""

    def crash_part(self, name: str) -> int:
        """Kill a process and return its id."""


@dataclass
class ProcessKill:
    """A kill: the process, when it was killed in Unix time, and the seconds until it was back."""

    name: str
    pid: int
    at: float
    back_s: float | None = None
    #: Whether it did not come back in time.
    is_lost: bool = False


class ProcessKills:
    """Kills processes of a mesh, one at a time each; for use on one event loop."""

    def __init__(self, mesh: KillableMesh) -> None:
        self._mesh = mesh
        self._done: list[ProcessKill] = []
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def names(self) -> list[str]:
        """The processes that may be killed."""
        return sorted(name for name in self._mesh.processes if name != _KEPT)

    @property
    def done(self) -> list[ProcessKill]:
        """The kills, newest first."""
        return self._done[::-1]

    def kill(self, name: str) -> ProcessKill:
        """Kill a process with SIGKILL; the launcher starts it again.

        Raises:
            NotFound: there is no such process.
            Conflict: it is away still, or it was killed too often lately.
        """
        if name not in self.names:
            raise NotFound(f"no process {name!r:.80}", hint=", ".join(self.names))
        if any(one.name == name and one.back_s is None and not one.is_lost for one in self._done):
            raise Conflict(f"{name} was killed and is not back yet")
        killed = ProcessKill(name, self._mesh.crash_part(name), time.time())
        self._done = [*self._done, killed][-_MOST_KILLS:]
        task = asyncio.create_task(self._watch(killed))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return killed

    def close(self) -> None:
        """End the waiting for processes."""
        for task in self._watching:
            task.cancel()

    async def _watch(self, killed: ProcessKill) -> None:
        """Note when a killed process runs again, and answers if it is a service."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(_BACK_WITHIN_S):
                await self._restarted(killed)
                await self._answers(killed.name)
        except (TimeoutError, InfrastructureError):
            killed.is_lost = True
            return
        killed.back_s = time.monotonic() - started

    async def _restarted(self, killed: ProcessKill) -> None:
        """Wait until the launcher has started the process again."""
        while True:
            if self._mesh.processes.get(killed.name, killed.pid) != killed.pid:
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _answers(self, name: str) -> None:
        """Wait until a service answers; other processes need no wait."""
        if name not in CLIENTS:
            return
        retry = RetryBudget(attempts=10_000, total_s=_BACK_WITHIN_S, max_wait_s=_LOOK_EVERY_S)
        async with CLIENTS[name](self._mesh.urls[name], retry=retry) as client:
            await client.health()
