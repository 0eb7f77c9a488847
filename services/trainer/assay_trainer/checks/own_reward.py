"""A command's own reward service, with the rubric of a file."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay_shared.clients import RewardClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, NotReady, Unreachable
from assay_shared.runtime.cause import cause_of_end
from assay_shared.runtime.processes import end, spawn
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.service.server import bind
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import read_yaml

_START_TIMEOUT_S = 60.0
_STOP_GRACE_S = 10.0
_CLI = (sys.executable, "-m", "assay_shared.cli")
#: Whose lines are what a function of the rubric prints.
_PRINTS = "assay_reward.own.processes"


@contextmanager
def reward_service_for(
    rubric: str | None, settings: ServiceSettings
) -> Iterator[tuple[str | None, ServiceSettings]]:
    """Yield the name of a rubric, and settings to find a service with this rubric.

    For a YAML file, a service is started and ended with the block; prints of its functions appear
    on standard error. Anything else is the name of a rubric of the running service.

    Raises:
        ConfigError: the file is not a usable rubric.
    """
    if rubric is None or not rubric.endswith((".yaml", ".yml")):
        yield rubric, settings
        return
    path = Path(rubric).resolve()
    name = str(read_yaml(path).get("name"))
    with TemporaryFolder("assay-score-") as folder, bind("127.0.0.1", 0) as own:
        log = folder / "reward.log"
        process = spawn(
            (*_CLI, "reward", "serve", "--fd", str(own.fileno())),
            log=log,
            environment=os.environ | {"ASSAY_REWARD_RUBRICS": str(path), "ASSAY_LOG_LEVEL": "INFO"},
            pass_fds=(own.fileno(),),
        )
        try:
            url = "http://{}:{}".format(*own.getsockname())
            own.close()
            asyncio.run(_wait(url, process, log))
            yield name, settings.model_copy(update={"reward_url": url})
        finally:
            end([process], _STOP_GRACE_S)
            _show_prints(log)


async def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the service answers."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    async with RewardClient(url, retry=NO_RETRY) as client:
        while True:
            try:
                await client.health()
                return
            except Unreachable:
                if process.poll() is not None:
                    raise ConfigError(cause_of_end(log)) from None
                if time.monotonic() > deadline:
                    raise NotReady("the reward service does not start") from None
                await asyncio.sleep(0.05)


def _show_prints(log: Path) -> None:
    for line in log.read_text(errors="replace").splitlines():
        if _PRINTS in line:
            sys.stderr.write(json.loads(line)["message"] + "\n")
