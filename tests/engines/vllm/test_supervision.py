"""A service process without a permit to restart its vLLM, killed later."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import NotReady
from assay_shared.runtime.processes import spawn
from assay_shared.types import GenerateRequest, PolicyVersion, SamplingParams
from assay_shared.weights import checkpoint
from tests.conftest import wait_until
from tests.support.policies import SERVABLE, make_policy_folder, update_of
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_python

pytestmark = [NEEDS_VLLM, pytest.mark.slow, pytest.mark.timeout(2 * START_TIMEOUT_S)]
REQUEST = GenerateRequest(prompt="x", sampling=SamplingParams(max_tokens=4))


def start_service(folder: Path) -> "subprocess.Popen[bytes]":
    return spawn(
        [sys.executable, "-m", "assay_shared.cli", "inference", "serve", "--port", "0"],
        log=folder / "inference.log",
        environment=os.environ
        | {
            "ASSAY_INFERENCE_ENGINE": "vllm",
            "ASSAY_INFERENCE_VLLM_PYTHON": vllm_python(),
            "ASSAY_INFERENCE_VLLM_ARGUMENTS": "--enforce-eager",
            "ASSAY_INFERENCE_MAX_RESTARTS": "0",
            "ASSAY_INFERENCE_HEALTH_INTERVAL_S": "0.5",
            "VLLM_CPU_KVCACHE_SPACE": "1",
        },
    )


def address(folder: Path) -> str:
    log = folder / "inference.log"
    wait_until(lambda: "listening on" in log.read_text(), "the service to listen", 60)
    return log.read_text().partition("listening on ")[2].partition('"')[0]


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until_not_ready(client: InferenceClient) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            await client.ready()
        except NotReady as error:
            return error.message
        await asyncio.sleep(0.1)
    raise AssertionError("it stays ready")


async def test_a_spent_budget_is_said_and_nothing_outlives_the_service(tmp_path: Path) -> None:
    digest = make_policy_folder(tmp_path / "v1", config=SERVABLE)
    assert digest == checkpoint.digest(tmp_path / "v1")
    update = update_of(tmp_path / "v1", PolicyVersion(version=1, digest=digest))
    service = start_service(tmp_path)
    try:
        url = address(tmp_path)
        async with InferenceClient(url, retry=NO_RETRY) as client:
            await client.update_weights(update)
            await client.generate(REQUEST)
            await asyncio.sleep(1.5)
            shown = (await asyncio.to_thread(httpx.get, f"{url}/metrics", timeout=10)).text
            assert "vllm:generation_tokens_total" in shown
            assert 'assay_inference_sync_seconds_count{phase="start"} 1.0' in shown
            assert "assay_inference_tokens_total 4.0" in shown

            *_, engine = psutil.Process(service.pid).children(recursive=True)
            engine.kill()
            assert "failed again and again" in await until_not_ready(client)
            assert (await client.weight_status()).policy is None
            with pytest.raises(NotReady, match="no weights are loaded"):
                await client.generate(REQUEST)
            assert (await client.update_weights(update)).policy == update.policy
            await client.generate(REQUEST)

        family = psutil.Process(service.pid).children(recursive=True)
        assert len(family) >= 3, "the guard, vLLM's server and its engine"
        service.kill()
        wait_until(lambda: all(is_gone(process) for process in family), "all to end", 10)
    finally:
        service.kill()
        service.wait()
