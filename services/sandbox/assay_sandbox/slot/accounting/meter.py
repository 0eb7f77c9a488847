"""What a program and all that it started have used since it began: by control group where there is
one, else by what /proc shows of its processes.
"""

import os
import time
from dataclasses import dataclass

from assay_sandbox.slot.accounting import tree
from assay_sandbox.slot.accounting.memory import MemoryCount
from assay_sandbox.slot.confinement.cgroup import Cgroup, num_killed

#: A program is looked at this often at least.
_LOOK_EVERY_S = 0.1
#: Looks at processes come at times that a program cannot foresee: at least this part of a pause.
_LEAST_PART = 0.3
#: How fast one core fills memory at most, and how close to each other looks at memory may be.
_FILL_BYTES_PER_S = 2e9
_SHORTEST_S = 0.01
#: A look at processes costs no more than one part in this many of a core.
_COST = 20
#: A process that is just becoming another program shares all of its parent's memory for a moment.
_LOOKS_OVER_MEMORY = 2


@dataclass(frozen=True)
class MeterPlace:
    """Where a slot's programs run, as far as it is the same for all of them."""

    cgroup: Cgroup | None
    #: Counts what is killed for memory in the group that all slots share, if they have none each.
    shared_events_fd: int | None
    #: Whether /proc shows nothing but the slot's processes.
    is_alone: bool
    #: The folders of programs that are in memory.
    folders: tuple[str, ...]


class Meter:
    """Counts for one program, from its start in a slot that is otherwise at rest."""

    def __init__(self, place: MeterPlace, memory_bytes: int) -> None:
        """Start to count, before the program is started."""
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
        """CPU seconds of the program, its children and theirs, those that have ended included."""
        if self._cpu_group is not None:
            return self._cpu_group.used_s() - self._cpu_before_s
        assert self._processes is not None
        return self._processes.cpu_time_s()

    def is_out_of_memory(self) -> bool:
        """Whether the kernel has ended a process for memory, here or for all slots; or must."""
        if self._num_killed() != self._killed_before:
            return True
        return self._processes is not None and self._processes.is_out_of_memory()

    def until_next_look_s(self) -> float:
        """How soon to look again, for what is no limit of CPU time."""
        return _LOOK_EVERY_S if self._processes is None else self._processes.until_next_look_s()

    def stop(self) -> None:
        """Call it when the program has ended, before anything is done to end what it started."""
        if self._cpu_group is not None:
            self._cpu_after_s = self.cpu_time_s()

    def total_cpu_time_s(self, reaped_s: float) -> float:
        """CPU seconds in all; `reaped_s` were used by what the slot's first process has reaped."""
        if self._processes is None:
            return self._cpu_after_s
        return self._processes.total_cpu_time_s(reaped_s)

    def peak_memory_bytes(self) -> int:
        """The most that was held; 0 where it is not known."""
        if self._place.cgroup is not None:
            return self._place.cgroup.peak_bytes() or 0
        assert self._processes is not None
        return self._processes.peak_bytes

    def was_out_of_memory(self) -> tuple[bool, bool]:
        """Whether the program was; and whether something was killed that may be another slot's."""
        own, shared = self._num_killed()
        own_before, shared_before = self._killed_before
        is_over = self._processes is not None and self._processes.is_over_memory
        return own > own_before or is_over, shared > shared_before

    def _num_killed(self) -> tuple[int, int]:
        own = 0 if self._place.cgroup is None else self._place.cgroup.num_killed()
        fd = self._place.shared_events_fd
        return own, 0 if fd is None else num_killed(fd)


class ProcessTree:
    """The same without a control group: looks at each process that there is.

    What ends between two looks and is waited for by nobody is missed, as far as it was not seen;
    so is memory that no process maps and that lies in no folder: what is in pipes and sockets.
    """

    def __init__(self, place: MeterPlace, memory_bytes: int | None) -> None:
        """Start to count; `memory_bytes` is None where memory is counted by group."""
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
        """Whether more is held than the limit, by the processes that were last seen."""
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
