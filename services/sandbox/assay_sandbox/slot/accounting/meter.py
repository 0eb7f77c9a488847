"""Meter of a program: CPU time and memory of the program and its descendants since its start.

The figures come from a control group if the slot has one, else from the processes in /proc.
"""

import os
import time
from dataclasses import dataclass

from assay_sandbox.slot.accounting import tree
from assay_sandbox.slot.accounting.memory import MemoryCount
from assay_sandbox.slot.confinement.cgroup import Cgroup, num_killed

#: Longest pause between two checks of a program, unless a check is costly (see `_COST`).
_LOOK_EVERY_S = 0.1
#: Each check of processes comes after a random part of a pause, at least this large. Otherwise a
#: program could foresee the check.
_LEAST_PART = 0.3
#: Fastest rate at which a core fills memory, and shortest pause between checks of memory.
_FILL_BYTES_PER_S = 2e9
_SHORTEST_S = 0.01
#: Checks of processes cost at most one part in this many of a core.
_COST = 20
#: Checks in a row over the limit before a program counts as over it: a process about to exec
#: another program shares all of its parent's memory for a moment.
_LOOKS_OVER_MEMORY = 2


@dataclass(frozen=True)
class MeterPlace:
    """Properties of a slot shared by the meters of all its programs."""

    cgroup: Cgroup | None
    #: Counts processes killed for memory in the group of all slots, if slots have no group each.
    shared_events_fd: int | None
    #: True if /proc shows only the slot's processes.
    is_alone: bool
    #: The programs' in-memory folders.
    folders: tuple[str, ...]


class Meter:
    """CPU time and memory of a program, counted from its start in an otherwise idle slot."""

    def __init__(self, place: MeterPlace, memory_bytes: int) -> None:
        """Start counting. Create the meter before the program starts."""
        self._place = place
        group = place.cgroup
        self._cpu_group = None if group is None else group.cpu
        self._processes: ProcessTree | None = None
        if group is None or self._cpu_group is None:
            self._processes = ProcessTree(place, memory_bytes if group is None else None)
        if group is not None:
            group.limit(memory_bytes)
        self._cpu_before_s = 0.0 if self._cpu_group is None else self._cpu_group.used_s()
        self._cpu_after_s = 0.0
        self._killed_before = self._num_killed()

    def cpu_time_s(self) -> float:
        """Return the CPU seconds of the program and all its descendants, including ended ones."""
        if self._cpu_group is not None:
            return self._cpu_group.used_s() - self._cpu_before_s
        assert self._processes is not None
        return self._processes.cpu_time_s()

    def is_out_of_memory(self) -> bool:
        """Return True after a kill for memory, or if the processes exceed the memory limit.

        A kill in the group of all slots counts too.
        """
        if self._num_killed() != self._killed_before:
            return True
        return self._processes is not None and self._processes.is_out_of_memory()

    def until_next_look_s(self) -> float:
        """Return the seconds until the next check needed for anything but the CPU limit."""
        return _LOOK_EVERY_S if self._processes is None else self._processes.until_next_look_s()

    def stop(self) -> None:
        """Note the CPU time. Call at the program's end, before killing its descendants."""
        if self._cpu_group is not None:
            self._cpu_after_s = self.cpu_time_s()

    def total_cpu_time_s(self, reaped_s: float) -> float:
        """Return the total CPU seconds.

        `reaped_s` are the CPU seconds of all processes reaped by the slot's first process.
        """
        if self._processes is None:
            return self._cpu_after_s
        return self._processes.total_cpu_time_s(reaped_s)

    def peak_memory_bytes(self) -> int:
        """Return the peak memory in bytes, or 0 if unknown."""
        if self._place.cgroup is not None:
            return self._place.cgroup.peak_bytes() or 0
        assert self._processes is not None
        return self._processes.peak_bytes

    def was_out_of_memory(self) -> tuple[bool, bool]:
        """Return two flags: the program ran out of memory, and a kill hit the group of all slots.

        The killed process of the second flag may belong to another slot.
        """
        own, shared = self._num_killed()
        own_before, shared_before = self._killed_before
        is_over = self._processes is not None and self._processes.is_over_memory
        return own > own_before or is_over, shared > shared_before

    def _num_killed(self) -> tuple[int, int]:
        own = 0 if self._place.cgroup is None else self._place.cgroup.num_killed()
        fd = self._place.shared_events_fd
        return own, 0 if fd is None else num_killed(fd)


class ProcessTree:
    """Counts of a program without a control group, read from each of its processes.

    If a process ends and nobody waits for it, its CPU time since the last check is missed: all of
    it, if no check saw the process. Memory in pipes and sockets is missed too: no process maps it
    and no folder holds it.
    """

    def __init__(self, place: MeterPlace, memory_bytes: int | None) -> None:
        """Start counting. `memory_bytes` is None if a control group counts memory."""
        self._is_alone = place.is_alone
        self._memory_bytes = memory_bytes
        self._cpu = tree.CpuCount()
        self._memory = MemoryCount(place.folders)
        self._pids: list[int] = []
        self._cost_s = 0.0
        self._bound_bytes = 0
        self._looks_over = 0
        self.is_over_memory = False
        self.peak_bytes = 0

    def cpu_time_s(self) -> float:
        started = time.thread_time()
        self._pids = tree.members(os.getpid(), is_alone=self._is_alone)
        used_s = self._cpu.look(self._pids)
        self._cost_s = time.thread_time() - started
        return used_s

    def total_cpu_time_s(self, reaped_s: float) -> float:
        return self._cpu.total_s(reaped_s)

    def is_out_of_memory(self) -> bool:
        """Return True after `_LOOKS_OVER_MEMORY` checks in a row over the memory limit.

        A check covers the processes found by the last `cpu_time_s`.
        """
        if self._memory_bytes is None:
            return False
        started = time.thread_time()
        self._bound_bytes = self._memory.bound_bytes(self._pids)
        if self._bound_bytes > self._memory_bytes:
            self._bound_bytes = self._memory.held_bytes(self._pids)
            self.peak_bytes = max(self.peak_bytes, self._bound_bytes)
        self._looks_over = self._looks_over + 1 if self._bound_bytes > self._memory_bytes else 0
        self.is_over_memory = self._looks_over >= _LOOKS_OVER_MEMORY
        self._cost_s += time.thread_time() - started
        return self.is_over_memory

    def until_next_look_s(self) -> float:
        pause_s = _LOOK_EVERY_S
        if self._memory_bytes is not None:
            left_bytes = self._memory_bytes - self._bound_bytes
            fills_in_s = left_bytes / (_FILL_BYTES_PER_S * (os.cpu_count() or 1))
            pause_s = min(pause_s, max(_SHORTEST_S, fills_in_s))
        part = _LEAST_PART + (1 - _LEAST_PART) * os.urandom(1)[0] / 255
        return max(pause_s * part, self._cost_s * _COST)
