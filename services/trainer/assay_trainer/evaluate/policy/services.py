"""The services of an evaluation: those that run already, or own ones that end with the command."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from assay_shared.clients import InferenceClient, RewardClient, ServiceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import ConfigError, InvalidInput, NotReady, Refused, Unreachable
from assay_shared.runtime.cause import cause_of_end
from assay_shared.runtime.processes import end, spawn
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.service.server import bind
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import Task
from assay_trainer.rollouts.set_aside import without_rubric

_CLI = (sys.executable, "-m", "assay_shared.cli")
_START_TIMEOUT_S = 120.0
#: An engine reads the weights before it is ready.
_LOAD_TIMEOUT_S = 1500.0
_STOP_GRACE_S = 20.0
_POLL_S = 0.1


async def _answers(client: ServiceClient) -> bool:
    async with client:
        try:
            await client.health()
        except Refused:
            return False
        return True


def runs_at(kind: type[ServiceClient], settings: ServiceSettings) -> bool:
    """Return False if nobody listens at the service's address.

    Raises:
        AssayError: somebody does, and the answer is an error.
    """
    return asyncio.run(_answers(kind.from_settings(settings, retry=NO_RETRY)))


class OwnServices:
    """Services of this command, on free ports, which end with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(
        self, name: str, *options: str, variables: dict[str, str] | None = None
    ) -> tuple[str, subprocess.Popen[bytes], Path]:
        """Start a service; return its address, its process and its log."""
        with bind("127.0.0.1", 0) as own:
            log = self._folder / f"{name}.log"
            process = spawn(
                (*_CLI, name, "serve", "--fd", str(own.fileno()), *options),
                log=log,
                environment=os.environ | (variables or {}),
                pass_fds=(own.fileno(),),
            )
            self.processes.append(process)
            url = "http://{}:{}".format(*own.getsockname())
        return url, process, log

    def end(self) -> None:
        """End all of them, callers before the services that they call."""
        for process in reversed(self.processes):
            end([process], _STOP_GRACE_S)


async def _wait_until_ready(
    client: ServiceClient, process: subprocess.Popen[bytes], log: Path, limit_s: float
) -> None:
    deadline = time.monotonic() + limit_s
    async with client:
        while True:
            try:
                await client.ready()
                return
            except (Unreachable, NotReady):
                if process.poll() is not None:
                    raise ConfigError(f"{client.service}: {cause_of_end(log)}") from None
                if time.monotonic() > deadline:
                    raise NotReady(f"{client.service} does not start in {limit_s:g} s") from None
                await asyncio.sleep(_POLL_S)


@contextmanager
def own_services(log_folder: Path | None = None) -> Iterator[OwnServices]:
    """Yield a starter of services, which end with the block."""
    with ExitStack() as stack:
        if log_folder is None:
            log_folder = stack.enter_context(TemporaryFolder("assay-evaluate-"))
        own = OwnServices(log_folder)
        stack.callback(own.end)
        yield own


def check_rubrics(tasks: Mapping[str, Iterable[Task]], settings: ServiceSettings) -> None:
    """Refuse tasks whose rubric the reward service does not have.

    Args:
        tasks: by the field that an error names.

    Raises:
        InvalidInput: a rubric is not there; names it and its first task.
        AssayError: the service does not answer this caller.
    """

    async def known() -> set[str]:
        async with RewardClient.from_settings(settings, retry=NO_RETRY) as client:
            return {one.name for one in await client.rubrics()}

    rubrics = asyncio.run(known())
    for field, some in tasks.items():
        for task, reason in without_rubric(some, rubrics):
            raise InvalidInput(
                f"{task.id}: {reason}",
                field=field,
                hint="ASSAY_REWARD_RUBRICS of the reward service names a folder of own rubrics",
            )


def with_reward(own: OwnServices, settings: ServiceSettings) -> tuple[ServiceSettings, list[str]]:
    """Return settings with a reward service that answers, and the names of the started services.

    Where nobody listens at ASSAY_REWARD_URL, reward, judge and sandbox are started.

    Raises:
        AssayError: the running service answers with an error, or an own one does not start.
    """
    if runs_at(RewardClient, settings):
        return settings, []
    sandbox, *_ = own.start("sandbox", variables=_ISOLATION)
    judge, *_ = own.start("judge")
    addresses = {"ASSAY_SANDBOX_URL": sandbox, "ASSAY_JUDGE_URL": judge}
    reward, process, log = own.start("reward", variables=addresses)
    changed = settings.model_copy(
        update={"reward_url": reward, "sandbox_url": sandbox, "judge_url": judge}
    )
    client = RewardClient.from_settings(changed, retry=NO_RETRY)
    asyncio.run(_wait_until_ready(client, process, log, _START_TIMEOUT_S))
    return changed, ["sandbox", "judge", "reward"]


#: As `assay up` sets it: the user owns this machine and the policy.
_ISOLATION = {"ASSAY_SANDBOX_MINIMUM_ISOLATION": "fallback"}


def start_engine(
    own: OwnServices, folder: Path, settings: ServiceSettings
) -> tuple[ServiceSettings, Sequence[str]]:
    """Return settings with an inference service that serves `folder`.

    Raises:
        AssayError: it does not start.
    """
    url, process, log = own.start("inference", "--model", str(folder))
    changed = settings.model_copy(update={"inference_url": url})
    client = InferenceClient.from_settings(changed, retry=NO_RETRY)
    asyncio.run(_wait_until_ready(client, process, log, _LOAD_TIMEOUT_S))
    return changed, ["inference"]
