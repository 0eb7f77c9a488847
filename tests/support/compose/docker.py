"""Docker's command line, and a sandbox in a container as a test sees it."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[3]
BUILD_TIMEOUT_S = 600
IMAGE, TEST_IMAGE = "assay-sandbox:trial", "assay-sandbox:trial-tests"
_PROJECT = "assay-trial"
_PORT = 28002
#: The service's image with what tests need; for the trial only.
_TEST_DOCKERFILE = f"""
FROM {IMAGE}
USER root
COPY requirements/dev.txt /tmp/dev.txt
RUN sed -n 's/^\\([A-Za-z0-9._-]*==[^ ]*\\).*/\\1/p' /tmp/dev.txt > /tmp/pins.txt \
    && pip --python /opt/assay/venv/bin/python install --constraint /tmp/pins.txt \
    httpx pytest pytest-asyncio pytest-timeout pytest-xdist
USER 10001:10001
"""


def docker(
    *arguments: str,
    stdin: str = "",
    timeout_s: float = 60,
    check: bool = True,
    environment: dict[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a command at the top of the repository; its output is shown if it fails.

    Compose files take variables of ours from `environment` alone: tests set some for services that
    they start themselves, such as a lower least isolation.
    """
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "COMPOSE_"))}
    done = subprocess.run(
        ["docker", *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        cwd=ROOT,
        env=variables | {"DOCKER_BUILDKIT": "1"} | (environment or {}),
    )
    assert not check or done.returncode == 0, done.stdout
    return done


def build_images() -> None:
    """Small ones: no compilers, no scientific packages."""
    docker(
        *("build", "--file", "services/sandbox/Dockerfile", "--tag", IMAGE),
        *("--build-arg", "VARIANT=slim", "."),
        timeout_s=BUILD_TIMEOUT_S,
    )
    docker(
        *("build", "--file", "-", "--tag", TEST_IMAGE, "."),
        stdin=_TEST_DOCKERFILE,
        timeout_s=BUILD_TIMEOUT_S,
    )


def compose(
    *arguments: str, image: str = IMAGE, memory: str = "2g", timeout_s: float = 120
) -> "subprocess.CompletedProcess[str]":
    """The sandbox's own compose file as it is shipped, with another image, port and limit."""
    environment = {
        "ASSAY_SANDBOX_IMAGE": image,
        "ASSAY_SANDBOX_MEMORY": memory,
        "ASSAY_SANDBOX_PORT": str(_PORT),
        "ASSAY_SANDBOX_SLOTS": "2",
    }
    return docker(
        "compose", "--file", "deploy/sandbox.yaml", "--project-directory", ".",
        "--project-name", _PROJECT, *arguments, environment=environment, timeout_s=timeout_s,
    )  # fmt: skip


@dataclass(frozen=True)
class Service:
    """A sandbox at an address."""

    url: str

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=5).is_success
        except httpx.TransportError:
            return False

    def health(self) -> dict[str, Any]:
        answer = httpx.get(f"{self.url}/health", timeout=10).raise_for_status()
        return dict(answer.json())

    def execute(self, code: str, **limits: float) -> dict[str, Any]:
        """Return the result, or the error, of a program."""
        body = {"code": code, "limits": {"cpu_time_s": 1.0, "wall_time_s": 3.0} | limits}
        return dict(httpx.post(f"{self.url}/v1/execute", json=body, timeout=30).json())


COMPOSED = Service(f"http://127.0.0.1:{_PORT}")
