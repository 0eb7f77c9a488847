"""The system calls allowed to programs, compiled to the kernel's filter language.

An allow list: a call not named in `syscalls` is refused. If the answer does not depend on
arguments, kernels from 5.11 on decide by a bit per call and never run the filter. For all other
calls the filter is a binary search over the numbers.
man page: seccomp(2); instructions: linux/bpf_common.h.
"""

import errno
import os
import struct
from dataclasses import dataclass

from assay_sandbox.slot.confinement import syscalls

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: First number of the other calling convention of x86_64: a call with such a number kills.
_X32_BIT = 0x40000000
#: CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET.
_NEW_NAMESPACE = 0x7E020000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_STREAM, _DATAGRAM, _PACKETS = 1, 2, 5
_SOCKET_TYPE = 0xF
_ANY_PROTOCOL, _TCP, _UDP = 0, 6, 17
_CURRENT_PERSONALITY = 0xFFFFFFFF
#: TIOCSTI and TIOCLINUX type text into a terminal, as if a user had. FS_IOC_SETFLAGS, its 32-bit
#: form and FS_IOC_FSSETXATTR change properties of a folder other than its mode.
_REFUSED_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820)
#: Mask and value of modes to leave a file or folder to its owner: no other user may write to it.
_MODE_BITS, _OWNERS_MODE = 0o7722, 0o700
#: Calls a first process makes namespaces with, and the error given to programs.
_NAMESPACES = {"clone3": errno.ENOSYS, "mount": errno.EPERM}
#: Index of each call's process or thread argument; the value 0 is the caller.
_ABOUT_ANOTHER = {
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "sched_setparam": 0,
}
_SCHED_OTHER = 0
_CHANGES_MODE = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
_CHANGES_ATTRIBUTES = (
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
)

_LOAD, _EQUAL, _AT_LEAST, _JUMP, _AND, _RETURN = 0x20, 0x15, 0x35, 0x05, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_FARTHEST_JUMP = 255
_WHOLE = 0xFFFFFFFF


@dataclass(frozen=True)
class Rules:
    """Differences between the filters of slots."""

    #: AF_UNIX sockets by name: only if all reachable names are the slot's own.
    local_sockets: bool
    #: TCP and UDP: only if the slot has its own network, with nothing in it but the slot.
    loopback: bool = False
    #: Files in memory: only if their memory is counted.
    memory_files: bool = True
    #: False if programs have the service's user: they may not change the service's files.
    own_files: bool = True
    #: Calls to make namespaces: for a first process with new namespaces for each program. The
    #: program then gets the filter of `for_programs` as well.
    namespaces: bool = False


@dataclass(frozen=True)
class _Test:
    """Condition on an argument: after `mask`, it must be among `values`."""

    argument: int
    values: tuple[int, ...]
    mask: int = _WHOLE


def compile_filter(machine: str, rules: Rules) -> bytes:
    """Return the filter for `machine`, an array of struct sock_filter.

    Raises:
        KeyError: no numbers are known for the machine.
    """
    lines = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        *_search(_ranges(machine, rules)),
    ]
    return b"".join(lines)


def for_this_machine(rules: Rules) -> bytes:
    return compile_filter(os.uname().machine, rules)


def for_programs() -> bytes:
    """Return the filter to put on over a filter with `namespaces`, in a process needing no more.

    Kept small, since it is put on for each program.
    """
    numbers = numbers_here()
    lines = [_step(_LOAD, _NUMBER)]
    for name, error in _NAMESPACES.items():
        lines += [_step(_EQUAL, numbers[name], 0, 1), *_refuse(error)]
    return b"".join([*lines, *_allow()])


def numbers_here() -> dict[str, int]:
    """Return the numbers of all known calls on this machine, including refused calls."""
    return syscalls.known(os.uname().machine)


def _ranges(machine: str, rules: Rules) -> list[tuple[int, list[bytes]]]:
    """Return the first number of each run of numbers with equal answers, and the answer's steps."""
    answers = _answers(machine, rules)
    otherwise = _refuse(errno.EPERM)
    ranges: list[tuple[int, list[bytes]]] = []
    for number in range(syscalls.LAST_KNOWN + 1):
        answer = answers.get(number, otherwise)
        if not ranges or ranges[-1][1] != answer:
            ranges.append((number, answer))
    ranges.append((syscalls.LAST_KNOWN + 1, _refuse(errno.ENOSYS)))
    if machine == "x86_64":
        ranges.append((_X32_BIT, [_step(_RETURN, _KILL)]))
    return ranges


def _answers(machine: str, rules: Rules) -> dict[int, list[bytes]]:
    answers = dict.fromkeys(syscalls.allowed(machine).values(), _allow())
    answers |= dict.fromkeys(syscalls.absent(machine).values(), _refuse(errno.ENOSYS))
    if rules.namespaces:
        known = syscalls.known(machine)
        answers |= {known[name]: _allow() for name in _NAMESPACES}
    decided = _by_argument(rules) | _by_slot(rules)
    for name, number in syscalls.ruled(machine).items():
        answers[number] = decided[name]
    return answers


def _by_argument(rules: Rules) -> dict[str, list[bytes]]:
    """Return the answers to calls decided by their arguments."""
    kinds = (_STREAM, _DATAGRAM, _PACKETS) if rules.local_sockets else (_STREAM, _PACKETS)
    decided = {
        # clone3 is absent: a filter cannot read its flags in memory, but sees those of clone.
        "clone": _require(_Test(0, (0,), _NEW_NAMESPACE)),
        "ioctl": _forbid(1, _REFUSED_IOCTLS),
        "personality": _require(_Test(0, (0, _CURRENT_PERSONALITY))),
        "setpriority": _require(_Test(0, (0,)), _Test(1, (0,))),
        "socket": _socket(rules),
        # A datagram socket of a pair can still send to any name.
        "socketpair": _require(
            _Test(0, (_AF_UNIX,)), _Test(1, kinds, _SOCKET_TYPE), error=errno.EAFNOSUPPORT
        ),
    }
    # Every thread has this policy already; Mono sets it, by number, for each thread it starts.
    as_it_is = [_load(1), _step(_EQUAL, _SCHED_OTHER, 0, 1), *_allow()]
    decided["sched_setscheduler"] = as_it_is + _require(_Test(0, (0,)))
    for name, argument in _ABOUT_ANOTHER.items():
        decided[name] = _require(_Test(argument, (0,)))
    for name, argument in _CHANGES_MODE.items():
        only_owners = _require(_Test(argument, (_OWNERS_MODE,), _MODE_BITS))
        decided[name] = _allow() if rules.own_files else only_owners
    return decided


def _by_slot(rules: Rules) -> dict[str, list[bytes]]:
    """Return the answers decided by the slot, the same for all arguments."""
    decided = {
        # Reported as done, but not run: a sync would keep every disk of the host busy.
        "sync": _refuse(0),
        "syncfs": _refuse(0),
        "memfd_create": _allow() if rules.memory_files else _refuse(errno.ENOSYS),
        "truncate": _allow() if rules.own_files else _refuse(errno.EPERM),
    }
    for name in _CHANGES_ATTRIBUTES:
        decided[name] = _allow() if rules.own_files else _refuse(errno.EOPNOTSUPP)
    return decided


def _socket(rules: Rules) -> list[bytes]:
    steps = []
    if rules.local_sockets:
        steps += [_load(0), _step(_EQUAL, _AF_UNIX, 0, 1), *_allow()]
    if not rules.loopback:
        return steps + _refuse(errno.EAFNOSUPPORT)
    return steps + _require(
        _Test(0, (_AF_INET, _AF_INET6)),
        _Test(1, (_STREAM, _DATAGRAM), _SOCKET_TYPE),
        _Test(2, (_ANY_PROTOCOL, _TCP, _UDP)),
        error=errno.EAFNOSUPPORT,
    )


def _require(*tests: _Test, error: int = errno.EPERM) -> list[bytes]:
    """Return steps to allow the call if every test holds, and otherwise refuse it."""
    steps = _allow() + _refuse(error)
    for test in reversed(tests):
        refusal = len(steps) - 1
        last = len(test.values) - 1
        compared = [
            # A match jumps behind the other comparisons; a failed last one, to the refusal.
            _step(_EQUAL, value, last - at, refusal if at == last else 0)
            for at, value in enumerate(test.values)
        ]
        masked = [] if test.mask == _WHOLE else [_step(_AND, test.mask)]
        steps = [_load(test.argument), *masked, *compared, *steps]
    return steps


def _forbid(argument: int, values: tuple[int, ...]) -> list[bytes]:
    """Return steps to refuse the call if the argument is among `values`, and otherwise allow it."""
    last = len(values) - 1
    compared = [_step(_EQUAL, value, last - at + 1) for at, value in enumerate(values)]
    return [_load(argument), *compared, *_allow(), *_refuse(errno.EPERM)]


def _search(ranges: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """Return steps to find the range of the loaded number, by binary search."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _search(ranges[:middle]), _search(ranges[middle:])
    first = ranges[middle][0]
    if len(below) <= _FARTHEST_JUMP:
        return [_step(_AT_LEAST, first, len(below)), *below, *above]
    return [_step(_AT_LEAST, first, 0, 1), _step(_JUMP, len(below)), *below, *above]


def _load(argument: int) -> bytes:
    """Return the step to load an argument's lower half: all of an int."""
    return _step(_LOAD, _ARGUMENTS + 8 * argument)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _allow() -> list[bytes]:
    return [_step(_RETURN, _ALLOW)]


def _refuse(error: int) -> list[bytes]:
    return [_step(_RETURN, _ERROR | error)]
