"""The compose file's whole stack, as a test brings it up, kills in it and looks into it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.conftest import wait_until
from tests.support.compose.docker import docker

TOKEN = "0123456789abcdef" * 2
RUN = "trial"
PROJECT = "assay-stack-trial"
_PORTS = {"inference": 28001, "reward": 28004, "trainer": 28005}
ENVIRONMENT = {
    "ASSAY_TOKEN": TOKEN,
    "ASSAY_REDIS_PASSWORD": "fedcba9876543210" * 2,
    "ASSAY_SANDBOX_VARIANT": "slim",
    "ASSAY_SANDBOX_SLOTS": "2",
    "ASSAY_WORKERS": "2",
    "ASSAY_VERSION": "trial",
    "ASSAY_CONFIGS": "./tests/deploy/compose",
    "ASSAY_RUN_FILE": "trial.yaml",
    **{f"ASSAY_{name.upper()}_PORT": str(port) for name, port in _PORTS.items()},
}
_BUILD_TIMEOUT_S, _UP_TIMEOUT_S = 1800, 600
_BACK_TIMEOUT_S = 120.0


def compose(
    *arguments: str, stdin: str = "", timeout_s: float = 120, check: bool = True
) -> "subprocess.CompletedProcess[str]":
    """Return the shipped file, under another name."""
    return docker(
        "compose", "--project-name", PROJECT, *arguments, stdin=stdin, environment=ENVIRONMENT,
        timeout_s=timeout_s, check=check,
    )  # fmt: skip


@contextmanager
def running_stack() -> Iterator[None]:
    """Built, up and healthy within the block, but for its run; nothing is left after it."""
    compose("build", timeout_s=_BUILD_TIMEOUT_S)
    try:
        up("--scale", "run=0")
        yield
    finally:
        compose("down", "--volumes", "--timeout", "10")


def up(*arguments: str) -> None:
    """Start missing parts, and return once all of it is healthy."""
    compose("up", "--detach", "--wait", "--no-build", *arguments, timeout_s=_UP_TIMEOUT_S)


def python(service: str, code: str, *arguments: str, timeout_s: float = 120) -> str:
    """Return the output of a program in a service's container."""
    return compose(
        "exec", "--no-TTY", service, "python", "-", *arguments, stdin=code, timeout_s=timeout_s
    ).stdout


def get(service: str, path: str) -> Any:
    """An answer of a published port."""
    return (
        httpx.get(
            f"http://127.0.0.1:{_PORTS[service]}{path}",
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=10,
        )
        .raise_for_status()
        .json()
    )


def run_status() -> dict[str, Any]:
    """Return the run's status; nothing of a trainer without an answer."""
    try:
        return dict(get("trainer", f"/v1/runs/{RUN}")["status"])
    except (httpx.HTTPError, KeyError):
        return {"state": "unknown", "stage": "", "step": -1}


@dataclass(frozen=True)
class Container:
    """A container of the stack."""

    name: str

    @classmethod
    def of(cls, service: str) -> "Container":
        """Return a service's first container."""
        shown = compose("ps", "--all", "--format", "json", service).stdout
        return cls(min(json.loads(line)["Name"] for line in shown.splitlines()))

    @property
    def details(self) -> dict[str, Any]:
        (details,) = json.loads(docker("inspect", self.name).stdout)
        return dict(details)

    @property
    def num_restarts(self) -> int:
        return int(self.details["RestartCount"])

    def addresses(self) -> list[str]:
        """Return its address in each of its networks."""
        networks = self.details["NetworkSettings"]["Networks"].values()
        return [network["IPAddress"] for network in networks if network["IPAddress"]]

    def is_up(self) -> bool:
        state = self.details["State"]
        return bool(state["Running"]) and state["Health"]["Status"] == "healthy"

    def kill(self) -> None:
        """End its first process with SIGKILL, as a fault would: not by the engine's own hand."""
        os.kill(int(self.details["State"]["Pid"]), signal.SIGKILL)

    def kill_and_wait(self) -> float:
        """Seconds from the kill until it was started again and healthy."""
        restarts, started = self.num_restarts, time.monotonic()
        self.kill()
        wait_until(
            lambda: self.num_restarts > restarts and self.is_up(),
            f"{self.name} to come back",
            _BACK_TIMEOUT_S,
        )
        return time.monotonic() - started
