"""Footprint of a sandbox service, measured from outside: memory, descriptors, processes, control
groups and temporary files.

The measuring process adopts orphans, so it also finds all processes left by the service or by its
programs.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from assay_sandbox.slot.confinement import cgroup, kernel
from assay_shared.errors import SandboxFault

_MIB = 2**20


@dataclass(frozen=True)
class MemorySample:
    """A sample. `server_bytes` is resident memory of the service's process; `slots_bytes` is the
    resident memory of the slot daemon and the slots' first processes together."""

    server_bytes: int
    slots_bytes: int
    descriptors: int
    processes: int
    cgroups: int
    files: int


#: Allowed growth from beginning to end: the changing mix of programs moves the figures this much.
TOLERANCES = {
    "server_bytes": 8 * _MIB,
    "slots_bytes": 8 * _MIB,
    "descriptors": 8,
    "processes": 8,
    "cgroups": 0,
    "files": 8,
}


class Footprint:
    """The footprint of a service. `folder` must be its temporary folder and serve nobody else."""

    def __init__(self, server_pid: int, folder: Path) -> None:
        """Adopt orphans from now on: create this as soon as the service is started."""
        kernel.adopt_orphans()
        self._server = psutil.Process(server_pid)
        self._folder = folder
        self._daemons: set[int] = set()

    def sample(self) -> MemorySample:
        """Return a sample taken now.

        Raises:
            SandboxFault: the service has ended.
        """
        try:
            return self._sample()
        except psutil.NoSuchProcess as error:
            raise SandboxFault(f"the service (process {error.pid}) has ended") from error

    def _sample(self) -> MemorySample:
        slots = []
        for daemon in self._server.children():
            self._daemons.add(daemon.pid)
            slots += [daemon, *_children(daemon)]
        held = [(_resident_bytes(one), _num_descriptors(one)) for one in slots]
        return MemorySample(
            server_bytes=self._server.memory_info().rss,
            slots_bytes=sum(resident for resident, _ in held),
            descriptors=self._server.num_fds() + sum(number for _, number in held),
            processes=1 + len(self._server.children(recursive=True)),
            cgroups=len(self._cgroups()),
            files=len(self._files()),
        )

    def _cgroups(self) -> list[str]:
        return [folder for pid in self._daemons for folder in cgroup.of_daemon(pid)]

    def _files(self) -> list[str]:
        return [str(path) for path in self._folder.rglob("*")]

    def left(self, patience_s: float) -> list[str]:
        """Return everything left after the end of the service; wait up to `patience_s` for less."""
        deadline = time.monotonic() + patience_s
        while True:
            orphans = [p for p in psutil.Process().children(recursive=True) if _is_alive(p)]
            found = [f"process {p.pid}: {p.cmdline()}" for p in orphans]
            found += [f"cgroup {folder}" for folder in self._cgroups()]
            found += [f"file {path}" for path in self._files()]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _num_descriptors(process: psutil.Process) -> int:
    try:
        return process.num_fds()
    except psutil.NoSuchProcess:
        return 0


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class Growth:
    """The lower quartiles of the second fifth and of the last fifth of all samples.

    A program of the mix raises only single samples, above the quartile; a leak raises the quartile.
    The first fifth is the warm-up.
    """

    early: float
    late: float
    tolerance: float

    @property
    def is_too_much(self) -> bool:
        return self.late - self.early > self.tolerance


def growth(samples: Sequence[MemorySample]) -> dict[str, Growth]:
    """Return the growth of each figure of the samples, by its name.

    Raises:
        ValueError: there are fewer than ten samples.
    """
    fifth = len(samples) // 5
    if fifth < 2:
        raise ValueError(f"{len(samples)} samples are too few: run it for longer")
    early, late = samples[fifth : 2 * fifth], samples[-fifth:]
    return {
        name: Growth(_low(name, early), _low(name, late), tolerance)
        for name, tolerance in TOLERANCES.items()
    }


def _low(name: str, samples: Sequence[MemorySample]) -> float:
    values = [float(getattr(sample, name)) for sample in samples]
    return statistics.quantiles(values, n=4, method="inclusive")[0]
