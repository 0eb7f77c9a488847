"""Which system calls a program may not make, compiled to the kernel's filter language.

A deny list: programs of any language run under it. What is on it has no use in a program that reads
input and writes output, and has been a way out of containers, or a way to outlive or watch others.
man page: seccomp(2); instructions: linux/bpf_common.h.
"""

import errno
import os
import struct

#: Number on x86_64 and on aarch64; None where the machine lacks it.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # watching and steering other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "perf_event_open": (298, 241),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # mounts and roots
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # namespaces, keys, kernel programs
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "memfd_secret": (447, 447),
    # files by handle, notification
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    # what outlives a program: shared memory, semaphores and queues of System V and POSIX
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    # the machine
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "nfsservctl": (180, 42),
    "personality": (135, 92),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
#: Judged by their arguments.
_CLONE, _CLONE3, _SOCKET, _IOCTL = (56, 220), (435, 435), (41, 198), (16, 29)
_COLUMNS = {"x86_64": 0, "aarch64": 1}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
#: CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET.
_NEW_NAMESPACE = 0x7E020000
_AF_UNIX = 1
#: Types text into a terminal, as if somebody had.
_TIOCSTI = 0x5412

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def compile_filter(machine: str, *, local_sockets: bool) -> bytes:
    """The filter for `machine`, an array of struct sock_filter.

    Args:
        local_sockets: allow AF_UNIX; only where abstract names are the program's own.

    Raises:
        KeyError: no numbers are known for that machine.
    """
    column = _COLUMNS[machine]
    lines = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        lines += [_step(_AT_LEAST, _X32_BIT, 0, 1), _step(_RETURN, _KILL)]
    for numbers in DENIED.values():
        number = numbers[column]
        if number is not None:
            lines += [_step(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    # glibc falls back to clone, whose flags can be looked at.
    lines += [_step(_EQUAL, _CLONE3[column], 0, 1), _refuse(errno.ENOSYS)]
    lines += _if_call(_CLONE[column], _ARGUMENT_0, _ANY_BIT, _NEW_NAMESPACE, errno.EPERM)
    lines += _if_call(_IOCTL[column], _ARGUMENT_1, _EQUAL, _TIOCSTI, errno.EPERM)
    if local_sockets:
        lines += _unless_call(_SOCKET[column], _ARGUMENT_0, _AF_UNIX, errno.EAFNOSUPPORT)
    else:
        lines += [_step(_EQUAL, _SOCKET[column], 0, 1), _refuse(errno.EAFNOSUPPORT)]
    lines.append(_step(_RETURN, _ALLOW))
    return b"".join(lines)


def numbers_here() -> dict[str, int | None]:
    """The denied calls of this machine."""
    column = _COLUMNS[os.uname().machine]
    return {name: numbers[column] for name, numbers in DENIED.items()}


def for_this_machine(*, local_sockets: bool) -> bytes:
    return compile_filter(os.uname().machine, local_sockets=local_sockets)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERROR | error)


def _if_call(number: int, argument: int, test: int, value: int, error: int) -> list[bytes]:
    """Refuse the call if its argument passes the test. The call's number is loaded."""
    return [
        _step(_EQUAL, number, 0, 4),
        _step(_LOAD, argument),
        _step(test, value, 0, 1),
        _refuse(error),
        _step(_RETURN, _ALLOW),
    ]


def _unless_call(number: int, argument: int, value: int, error: int) -> list[bytes]:
    """Refuse the call unless its argument is `value`."""
    return [
        _step(_EQUAL, number, 0, 4),
        _step(_LOAD, argument),
        _step(_EQUAL, value, 1, 0),
        _refuse(error),
        _step(_RETURN, _ALLOW),
    ]
