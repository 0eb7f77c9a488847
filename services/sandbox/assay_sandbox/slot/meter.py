"""What a program and all that it started have used since it began."""

import os

from assay_sandbox.slot import tree
from assay_sandbox.slot.cgroup import Cgroup, num_killed

#: Where nothing else asks for it, a program is looked at this often.
_LOOK_EVERY_S = 0.1


class Meter:
    """Counts for one program, from its start in a slot that is otherwise at rest."""

    def __init__(self, cgroup: Cgroup | None, shared_events_fd: int | None) -> None:
        """Start to count.

        `shared_events_fd` counts what is killed for memory in the group that all slots share, where
        they have none each.
        """
        self._cgroup = cgroup
        self._shared_events_fd = shared_events_fd
        self._killed_before = self._num_killed()

    def cpu_time_s(self) -> float:
        """CPU seconds of the program, its children and theirs, those that have ended included."""
        return tree.cpu_time_s(os.getpid())

    def is_out_of_memory(self) -> bool:
        """Whether the kernel has ended a process for memory, here or in another slot."""
        return self._num_killed() != self._killed_before

    def until_next_look_s(self) -> float:
        """For how long memory need not be looked at."""
        return _LOOK_EVERY_S

    def was_killed_for_memory(self) -> tuple[bool, bool]:
        """Whether a process was: of this slot's group, and of the group that all slots share."""
        own, shared = self._num_killed()
        own_before, shared_before = self._killed_before
        return own > own_before, shared > shared_before

    def _num_killed(self) -> tuple[int, int]:
        own = 0 if self._cgroup is None else self._cgroup.num_killed()
        fd = self._shared_events_fd
        return own, 0 if fd is None else num_killed(fd)
