"""The sandbox's image under a real Docker engine: the level it gets, and that it holds.

Only with ASSAY_DOCKER=1, since it takes a local engine and some minutes.
"""

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.conftest import wait_until
from tests.security.test_abuse import ABUSES
from tests.support.compose.docker import (
    BUILD_TIMEOUT_S,
    COMPOSED,
    IMAGE,
    ROOT,
    TEST_IMAGE,
    Service,
    build_images,
    compose,
    docker,
)

pytestmark = [
    pytest.mark.skipif(os.environ.get("ASSAY_DOCKER") != "1", reason="needs ASSAY_DOCKER=1"),
    pytest.mark.slow,
    pytest.mark.timeout(2 * BUILD_TIMEOUT_S),
]
ESCAPES = (
    "reads the password file of the host",
    "lists the host's folders",
    "connects to this machine",
    "reads the parent's environment",
    "becomes root",
    "mount",
    "unshare a user namespace",
    "bpf",
)
#: Each of its processes is below the limit of a program; together they are above the container's.
MEMORY_BOMB = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        kept = bytearray(b'x') * (40 * 2**20)
        time.sleep(9)
time.sleep(9)
"""
STEADY = "import time\nkept = bytearray(b'x') * (30 * 2**20)\ntime.sleep(0.1)\nprint(len(kept))"
REACH_OUT = """
import socket
try: socket.create_connection(('1.1.1.1', 53), timeout=3)
except OSError as error: print(error)
else: print('REACHED')
"""


@pytest.fixture(scope="module", autouse=True)
def images() -> None:
    build_images()


@contextmanager
def composed(memory: str = "2g") -> Iterator[Service]:
    """The compose file's service."""
    try:
        compose("up", "--detach", "--wait", "--no-build", memory=memory)
        yield COMPOSED
    finally:
        compose("down", "--timeout", "5")


@contextmanager
def plain(*options: str) -> Iterator[Service]:
    """A container with the options of `docker run` alone."""
    name = docker("run", "--detach", "--publish", "127.0.0.1::8002", *options, IMAGE).stdout.strip()
    try:
        port = docker("port", name, "8002").stdout.strip().rpartition(":")[2]
        service = Service(f"http://127.0.0.1:{port}")
        wait_until(service.is_ready, f"{name} to serve")
        yield service
    finally:
        docker("rm", "--force", name)


def assert_it_works_and_holds(service: Service) -> None:
    answer = service.execute("print(6 * 7)")
    assert (answer["status"], answer["stdout"]) == ("accepted", "42\n")
    for name in ESCAPES:
        answer = service.execute(ABUSES[name].code)
        assert answer["status"] in ABUSES[name].expected, (name, answer)
        assert "ESCAPED" not in answer["stdout"], name


def test_the_composed_service_gives_each_program_namespaces_without_any_privilege() -> None:
    with composed() as service:
        health = service.health()
        assert (health["isolation"], health["minimum_isolation"]) == ("fresh", "pooled")
        assert_it_works_and_holds(service)
        status = compose("exec", "--no-TTY", "sandbox", "cat", "/proc/1/status").stdout
        assert "\nUid:\t10001\t" in status
        assert "\nCapBnd:\t0000000000000000\n" in status
        assert "\nNoNewPrivs:\t1\n" in status


def test_the_composed_service_reaches_nobody() -> None:
    reach = ("python", "-c", REACH_OUT)
    if "REACHED" not in docker("run", "--rm", IMAGE, *reach).stdout:
        pytest.skip("this machine reaches nobody either")
    with composed():
        assert "timed out" in compose("exec", "--no-TTY", "sandbox", *reach).stdout


def test_every_abuse_is_held_inside_the_composed_service_at_every_level() -> None:
    command = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/security")
    shown = compose(
        *("run", "--rm", "--no-TTY", "--workdir", "/source"),
        *("--volume", f"{ROOT}/tests:/source/tests:ro"),
        *("--volume", f"{ROOT}/pyproject.toml:/source/pyproject.toml:ro"),
        *("sandbox", *command),
        image=TEST_IMAGE,
        timeout_s=600,
    ).stdout
    assert "failed" not in shown, shown
    passed = re.search(r"(\d+) passed", shown)
    assert passed is not None, shown
    assert int(passed[1]) > 4 * len(ABUSES), shown


def test_memory_that_runs_out_is_a_failure_and_no_verdict() -> None:
    limits = {"wall_time_s": 9.0, "memory_bytes": 128 * 2**20}
    with composed(memory="512m") as service, ThreadPoolExecutor() as threads:
        bomb = threads.submit(service.execute, MEMORY_BOMB, **limits)
        beside = []
        while not bomb.done():
            beside.append(service.execute(STEADY, **limits))
        started = time.monotonic()
        assert service.execute("print(1)")["status"] == "accepted"
        assert time.monotonic() - started < 1.0
        assert "error" in bomb.result(), bomb.result()
        error = bomb.result()["error"]
        assert (error["type"], error["retryable"]) == ("SandboxFault", True)
        for answer in beside:
            assert answer.get("status", "accepted") == "accepted", answer
            assert "error" not in answer or answer["error"]["type"] == "SandboxFault"


@pytest.mark.parametrize("options", [(), ("--user", "0")], ids=["uid 10001", "root"])
def test_without_options_it_refuses_and_says_what_is_missing(options: tuple[str, ...]) -> None:
    done = docker("run", "--rm", *options, IMAGE, check=False)
    assert done.returncode != 0
    assert "unshare: Operation not permitted" in done.stdout
    assert "seccomp=services/sandbox/seccomp.json" in done.stdout
    assert "ASSAY_SANDBOX_MINIMUM_ISOLATION=fallback" in done.stdout


@pytest.mark.parametrize(
    ("options", "separate_users"),
    [((), False), (("--user", "0"), True)],
    ids=["uid 10001", "root"],
)
def test_without_options_it_serves_as_fallback_where_that_is_allowed(
    options: tuple[str, ...], separate_users: bool
) -> None:
    with plain(*options, "--env", "ASSAY_SANDBOX_MINIMUM_ISOLATION=fallback") as service:
        health = service.health()
        assert health["isolation"] == "fallback"
        assert health["separate_users"] is separate_users
        assert (health["slots"] == 1) is not separate_users
        assert_it_works_and_holds(service)
