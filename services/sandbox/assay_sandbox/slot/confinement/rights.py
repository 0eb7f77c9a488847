"""What a slot's programs may do."""

from dataclasses import dataclass

from assay_sandbox.slot.confinement import kernel


@dataclass(frozen=True)
class Rights:
    """What a slot's programs may do, decided by the daemon. Ids are those inside the slot."""

    uid: int
    #: Whether the first process may take on other ids.
    changes_user: bool
    has_namespaces: bool
    filter: kernel.SyscallFilter
    ruleset_fd: int | None
    #: Counts what is killed for memory in the group that all slots share, if they have none each.
    events_fd: int | None
    work: str
    #: Emptied after each program; in memory and this large each, where there are namespaces.
    writable: tuple[str, ...]
    writable_bytes: int
    #: Where programs look for commands.
    path: str
    #: Whether each program has a network of its own, with nothing in it but itself.
    loopback: bool
