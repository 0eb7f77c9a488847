"""The rights of a slot's programs."""

from dataclasses import dataclass

from assay_sandbox.slot.confinement import kernel


@dataclass(frozen=True)
class Rights:
    """The rights of a slot's programs, decided by the daemon. Ids are as seen inside the slot."""

    uid: int
    #: True if the first process may take on other ids.
    changes_user: bool
    has_namespaces: bool
    filter: kernel.SyscallFilter
    ruleset_fd: int | None
    #: Counts processes killed for memory in the group of all slots, if slots have no group each.
    events_fd: int | None
    work: str
    #: Emptied after each program. With namespaces, each is in memory and `writable_bytes` large.
    writable: tuple[str, ...]
    writable_bytes: int
    #: Search path of programs for commands.
    path: str
    #: True if each program has its own network, with nothing in it but the program.
    loopback: bool
