"""The filter's tables against the kernel's own headers, and its answers in a real run."""

import errno
import json
import re
import struct
from pathlib import Path

import pytest

from assay_sandbox.slot.confinement import seccomp, syscalls
from assay_sandbox.slot.confinement.seccomp import Rules

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
#: The container's policy, below the one of programs.
CONTAINER = Path(__file__).parents[5] / "services/sandbox/seccomp.json"
#: What putting a slot together takes, and no program may.
FOR_SLOTS = {"clone3", "mount", "pivot_root", "umount2", "unshare"}
#: Here for clients of the container other than programs in slots.
HARMLESS = {
    "fstatat",
    "get_thread_area",
    "ioprio_set",
    "seccomp",
    "set_thread_area",
    "sync_file_range2",
}
IN_NAMESPACES = Rules(local_sockets=True)
WITH_LOOPBACK = Rules(local_sockets=True, loopback=True)
FALLBACK = Rules(local_sockets=False)
AS_THE_SERVICE = Rules(local_sockets=False, memory_files=False, own_files=False)
ALL_RULES = (IN_NAMESPACES, WITH_LOOPBACK, FALLBACK, AS_THE_SERVICE)
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
KILLED, ALLOWED = -1, None


def answer(
    rules: Rules, number: int, *arguments: int, machine: str = "x86_64", called_as: str = ""
) -> int | None:
    """Run the filter as the kernel does: the errno of a refusal, `ALLOWED` or `KILLED`."""
    steps = list(struct.iter_unpack("<HBBI", seccomp.compile_filter(machine, rules)))
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<iIQ6Q", number, ARCHITECTURES[called_as or machine], 0, *padded)
    at, loaded = 0, 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x06:
            return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}.get(value, value & 0xFFFF)
        if code == 0x20:
            loaded = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            loaded &= value
        elif code == 0x05:
            at += value
        else:
            holds = loaded == value if code == 0x15 else loaded >= value
            at += if_true if holds else if_false


def named(rules: Rules, name: str, *arguments: int) -> int | None:
    return answer(rules, syscalls.known("x86_64")[name], *arguments)


def test_a_container_allows_what_slots_and_their_programs_need_and_little_else() -> None:
    policy = json.loads(CONTAINER.read_text())
    assert policy["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {rule["action"] for rule in policy["syscalls"]} == {"SCMP_ACT_ALLOW"}
    plain, *by_argument = policy["syscalls"]
    assert plain["names"] == sorted(set(plain["names"]))
    needed = set(syscalls.allowed("x86_64")) | set(syscalls.allowed("aarch64"))
    needed |= set(syscalls.ruled("x86_64")) - {"socket", "personality"} | FOR_SLOTS
    assert needed <= set(plain["names"])
    assert set(plain["names"]) - needed <= HARMLESS | set(syscalls.absent("x86_64"))
    assert all(rule["names"] == ["socket"] for rule in by_argument)


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("needs the kernel's headers (linux-libc-dev)")
    text = HEADERS[machine].read_text()
    known = {name: int(n) for name, n in re.findall(r"define __NR(?:3264)?_(\w+)\s+(\d+)\b", text)}
    ours = syscalls.known(machine)
    checked = {name for name, number in ours.items() if known.get(name, number) == number}
    assert checked == ours.keys()
    assert len(ours.keys() & known.keys()) > 240


@pytest.mark.parametrize("machine", HEADERS)
def test_every_number_that_is_not_named_is_refused(machine: str) -> None:
    allowed = set(syscalls.allowed(machine).values())
    ruled = set(syscalls.ruled(machine).values())
    absent = set(syscalls.absent(machine).values())
    assert not allowed & absent
    assert not (allowed | absent) & ruled
    for number in range(1024):
        if number in ruled:
            continue
        if number in allowed:
            wanted = ALLOWED
        elif number in absent or number > syscalls.LAST_KNOWN:
            wanted = errno.ENOSYS
        else:
            wanted = errno.EPERM
        assert answer(FALLBACK, number, machine=machine) == wanted, number


@pytest.mark.parametrize("rules", ALL_RULES)
@pytest.mark.parametrize("machine", HEADERS)
def test_the_filter_is_whole_steps_and_short(machine: str, rules: Rules) -> None:
    program = seccomp.compile_filter(machine, rules)
    assert len(program) % 8 == 0
    assert len(program) // 8 < 400


@pytest.mark.parametrize("rules", ALL_RULES)
@pytest.mark.parametrize(
    "name",
    ["ptrace", "mount", "unshare", "setns", "bpf", "keyctl", "userfaultfd", "kcmp", "shmget"],
)
def test_ways_out_are_refused_in_every_slot(rules: Rules, name: str) -> None:
    assert named(rules, name) == errno.EPERM


def test_another_calling_convention_ends_the_program() -> None:
    assert answer(IN_NAMESPACES, 0x40000000 + 39) == KILLED
    assert answer(IN_NAMESPACES, 39, called_as="aarch64") == KILLED


def test_processes_are_made_in_the_namespaces_of_the_program_only() -> None:
    assert named(IN_NAMESPACES, "clone", 0x3D0F00) == ALLOWED  # what pthread_create says
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000):
        assert named(IN_NAMESPACES, "clone", flag | 17) == errno.EPERM
    assert named(IN_NAMESPACES, "clone", 0x40000000 | 17) == errno.EPERM
    assert named(IN_NAMESPACES, "clone3") == errno.ENOSYS


@pytest.mark.parametrize(
    "name", ["prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setattr"]
)
def test_a_program_sets_its_own_limits_and_nobody_elses(name: str) -> None:
    assert named(IN_NAMESPACES, name, 0, 1) == ALLOWED
    assert named(IN_NAMESPACES, name, 1, 1) == errno.EPERM
    if name == "sched_setscheduler":  # for another thread, only to what it has already
        assert named(IN_NAMESPACES, name, 1, 0) == ALLOWED
    assert named(IN_NAMESPACES, "setpriority", 0, 0, 5) == ALLOWED
    assert named(IN_NAMESPACES, "setpriority", 0, 1, 5) == errno.EPERM
    assert named(IN_NAMESPACES, "setpriority", 2, 0, 5) == errno.EPERM  # all of a user's


@pytest.mark.parametrize(
    ("rules", "family", "kind", "protocol", "wanted"),
    [
        (IN_NAMESPACES, 1, 1, 0, ALLOWED),
        (IN_NAMESPACES, 2, 1, 0, errno.EAFNOSUPPORT),
        (IN_NAMESPACES, 16, 3, 0, errno.EAFNOSUPPORT),
        (FALLBACK, 1, 1, 0, errno.EAFNOSUPPORT),
        (WITH_LOOPBACK, 1, 2, 0, ALLOWED),
        (WITH_LOOPBACK, 2, 0x80801, 6, ALLOWED),
        (WITH_LOOPBACK, 10, 2, 17, ALLOWED),
        (WITH_LOOPBACK, 2, 3, 1, errno.EAFNOSUPPORT),
        (WITH_LOOPBACK, 2, 2, 1, errno.EAFNOSUPPORT),
        (WITH_LOOPBACK, 2, 1, 132, errno.EAFNOSUPPORT),
        (WITH_LOOPBACK, 16, 3, 0, errno.EAFNOSUPPORT),
        (WITH_LOOPBACK, 17, 3, 0, errno.EAFNOSUPPORT),
    ],
)
def test_sockets_are_of_the_families_that_the_slot_has(
    rules: Rules, family: int, kind: int, protocol: int, wanted: int | None
) -> None:
    assert named(rules, "socket", family, kind, protocol) == wanted


def test_a_pair_of_sockets_that_could_send_elsewhere_needs_names_of_the_slots_own() -> None:
    for kind in (1, 5, 0x80801):
        assert named(FALLBACK, "socketpair", 1, kind) == ALLOWED
    for kind in (2, 3, 0x80802):
        assert named(FALLBACK, "socketpair", 1, kind) == errno.EAFNOSUPPORT
    assert named(IN_NAMESPACES, "socketpair", 1, 2) == ALLOWED
    assert named(IN_NAMESPACES, "socketpair", 2, 1) == errno.EAFNOSUPPORT


def test_a_program_of_the_services_user_cannot_close_its_files() -> None:
    for name, at in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        before = [0] * at
        for mode in (0o700, 0o755, 0o744):
            assert named(AS_THE_SERVICE, name, *before, mode) == ALLOWED
        for mode in (0, 0o600, 0o055, 0o777, 0o4755, 0o1700):
            assert named(AS_THE_SERVICE, name, *before, mode) == errno.EPERM
            assert named(IN_NAMESPACES, name, *before, mode) == ALLOWED
    assert named(AS_THE_SERVICE, "setxattr") == errno.EOPNOTSUPP
    assert named(AS_THE_SERVICE, "truncate") == errno.EPERM
    assert named(AS_THE_SERVICE, "memfd_create") == errno.ENOSYS


def test_odd_requests_to_devices_and_files_are_refused() -> None:
    for request in (0x5412, 0x541C, 0x40086602, 0x401C5820):
        assert named(IN_NAMESPACES, "ioctl", 0, request) == errno.EPERM
    assert named(IN_NAMESPACES, "ioctl", 0, 0x5401) == ALLOWED  # TCGETS, as isatty asks
    assert named(IN_NAMESPACES, "personality", 0xFFFFFFFF) == ALLOWED
    assert named(IN_NAMESPACES, "personality", 0x40000) == errno.EPERM
