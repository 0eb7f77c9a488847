"""The filter's table against the kernel's own headers, and its shape."""

import json
import re
from pathlib import Path

import pytest

from assay_sandbox.slot import seccomp

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}

#: The container's policy, below the one of programs.
CONTAINER = Path(__file__).parents[3] / "services/sandbox/seccomp.json"
#: What putting a slot together takes, and no program may.
FOR_SLOTS = {"mount", "pivot_root", "umount2", "unshare"}


def test_a_container_may_make_slots_and_nothing_else_that_programs_may_not() -> None:
    policy = json.loads(CONTAINER.read_text())
    assert policy["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {rule["action"] for rule in policy["syscalls"]} == {"SCMP_ACT_ALLOW"}
    plain, *by_argument = policy["syscalls"]
    assert plain["names"] == sorted(set(plain["names"]))
    assert {"clone", "clone3", "landlock_restrict_self", "prctl"} <= set(plain["names"])
    assert set(plain["names"]) & seccomp.DENIED.keys() == FOR_SLOTS
    assert all(rule["names"] == ["socket"] for rule in by_argument)


@pytest.mark.parametrize(("column", "machine"), list(enumerate(HEADERS)))
def test_numbers_are_those_of_the_kernels_headers(column: int, machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("needs the kernel's headers (linux-libc-dev)")
    text = HEADERS[machine].read_text()
    known = {name: int(n) for name, n in re.findall(r"define __NR(?:3264)?_(\w+)\s+(\d+)\b", text)}
    special = {
        "clone": seccomp._CLONE,
        "clone3": seccomp._CLONE3,
        "socket": seccomp._SOCKET,
        "ioctl": seccomp._IOCTL,
    }
    checked = 0
    for name, numbers in (seccomp.DENIED | special).items():
        number = numbers[column]
        if number is not None and name in known:
            assert known[name] == number, name
            checked += 1
    assert checked > 70


@pytest.mark.parametrize("machine", HEADERS)
@pytest.mark.parametrize("local_sockets", [True, False])
def test_the_filter_is_whole_steps_and_short(machine: str, local_sockets: bool) -> None:
    program = seccomp.compile_filter(machine, local_sockets=local_sockets)
    assert len(program) % 8 == 0
    assert len(program) // 8 < 256
