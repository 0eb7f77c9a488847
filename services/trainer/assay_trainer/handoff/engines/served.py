"""A folder served by Assay's inference, with one of its engines, in separate processes."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import AssayError, InfrastructureError
from assay_shared.runtime.cause import cause_of_end
from assay_shared.runtime.processes import end, spawn
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.service.server import bind
from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_shared.types import GenerateRequest, GenerateResponse, SamplingParams, WeightStatus
from assay_trainer.handoff.engines.answers import ForeignAnswer

_CLI = (sys.executable, "-m", "assay_shared.cli")
_STOP_GRACE_S = 30.0
_ASK_EVERY_S = 0.2
_HEALTH_S = 5.0
_VLLM = "ASSAY_INFERENCE_VLLM_PYTHON"
_FIND_S = 120.0


class FolderNotServed(InfrastructureError):
    """An engine refused the folder, or did not answer; its last line says why."""


class EngineMissing(InfrastructureError):
    """The engine cannot run on this machine."""


@dataclass(frozen=True)
class ServedAnswers:
    """An engine's answers, with its own account of the tensors that it compared."""

    answers: list[GenerateResponse]
    status: WeightStatus


def find_vllm(named: Path | None) -> Path:
    """Return the interpreter that has vLLM: the named one or one next to it, else this one.

    Raises:
        EngineMissing: there is none.
    """
    python = Path(sys.executable)
    if named is not None:
        python = named if named.name.startswith("python") else named.with_name("python")
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('vllm') is None)"
    try:
        found = subprocess.run(
            [str(python), "-c", code], capture_output=True, timeout=_FIND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineMissing(f"{python} cannot be run: {error}") from None
    if found.returncode != 0:
        hint = "" if named else ": name one that has it in ASSAY_VLLM or --vllm"
        raise EngineMissing(f"{python.name} has no vLLM{hint}")
    return python


def vllm_environment(python: Path) -> dict[str, str]:
    """Return the variables that let inference serve with vLLM."""
    return {"ASSAY_INFERENCE_ENGINE": "vllm", _VLLM: str(python)}


def transformers_environment(device: str | None) -> dict[str, str]:
    """Return the variables that let inference serve with its own engine."""
    chosen = {"ASSAY_INFERENCE_DEVICE": device} if device else {}
    return {"ASSAY_INFERENCE_ENGINE": "transformers"} | chosen


def ask_served(
    folder: Path,
    environment: Mapping[str, str],
    reference: tuple[ForeignAnswer, ...],
    max_tokens: int,
    limit_s: float,
) -> ServedAnswers:
    """Return an engine's greedy answers to the prompts of `reference`.

    Raises:
        FolderNotServed: the engine refuses the folder or does not answer in time.
        EngineMissing: the engine cannot run here.
    """
    with TemporaryFolder("assay-handoff-") as home, bind("127.0.0.1", 0) as own:
        log = home / "inference.log"
        fixed = {
            "ASSAY_INFERENCE_MODEL": str(folder.resolve()),
            "ASSAY_INFERENCE_PROCESSES": "1",
            "ASSAY_INFERENCE_DEVICES": "",
            "ASSAY_RUNS": str(home),
            "GOMP_SPINCOUNT": "1000",  # threads that wait leave the cores to others
        }
        process = spawn(
            (*_CLI, "inference", "serve", "--fd", str(own.fileno())),
            log=log,
            environment=os.environ | fixed | dict(environment),
            pass_fds=(own.fileno(),),
        )
        url = "http://{}:{}".format(*own.getsockname())
        own.close()
        try:
            return asyncio.run(
                _Asker(url, process, log, time.monotonic() + limit_s).ask(reference, max_tokens)
            )
        finally:
            end([process], _STOP_GRACE_S)


class _Asker:
    def __init__(
        self, url: str, process: "subprocess.Popen[bytes]", log: Path, deadline: float
    ) -> None:
        self._url, self._process, self._log, self._deadline = url, process, log, deadline

    async def ask(self, reference: tuple[ForeignAnswer, ...], max_tokens: int) -> ServedAnswers:
        settings = read_settings(ServiceSettings).model_copy(update={"inference_url": self._url})
        async with InferenceClient.from_settings(settings, retry=NO_RETRY) as client:
            await self._wait(client)
            try:
                async with asyncio.timeout(max(1.0, self._deadline - time.monotonic())):
                    answers = [await _answer(client, one, max_tokens) for one in reference]
                    return ServedAnswers(answers, await client.weight_status())
            except TimeoutError:
                raise FolderNotServed("it does not answer in time") from None
            except AssayError as error:
                raise FolderNotServed(str(error)) from None

    async def _wait(self, client: InferenceClient) -> None:
        """Return once the engine has the folder's weights."""
        while True:
            try:
                async with asyncio.timeout(_HEALTH_S):
                    status = await client.weight_status()
                if status.policy is not None:
                    return
            except (InfrastructureError, TimeoutError):
                pass
            if self._process.poll() is not None:
                self._raise_end()
            if time.monotonic() > self._deadline:
                raise FolderNotServed("it does not start in time")
            await asyncio.sleep(_ASK_EVERY_S)

    def _raise_end(self) -> None:
        said = cause_of_end(self._log)
        if said.startswith(_VLLM):
            raise EngineMissing(said)
        raise FolderNotServed(said)


async def _answer(
    client: InferenceClient, reference: ForeignAnswer, max_tokens: int
) -> GenerateResponse:
    # The context may have less room than is asked for; the reference has kept to it.
    room = max_tokens if reference.ended else len(reference.token_ids)
    sampling = SamplingParams(max_tokens=room, temperature=0)
    return await client.generate(GenerateRequest(token_ids=reference.prompt_ids, sampling=sampling))
