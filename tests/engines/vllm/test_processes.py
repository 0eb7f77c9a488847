"""Two real vLLM processes of a service: same version, same queue, and either may be killed."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from assay_inference.engines.factory import make_engine
from assay_inference.engines.replicas.engine import ReplicaEngine
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import PolicyVersion, SamplingParams
from assay_shared.weights import checkpoint
from tests.support.policies import SERVABLE, make_policy_folder, update_of
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_settings

pytestmark = [NEEDS_VLLM, pytest.mark.slow, pytest.mark.timeout(3 * START_TIMEOUT_S)]


def children(of: int) -> set[int]:
    """Process ids of the children of a process."""
    found = Path(f"/proc/{of}/task/{of}/children").read_text().split()
    return {int(pid) for pid in found}


async def test_two_processes_serve_one_version_and_one_may_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet_transformers()
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    folders = [tmp_path / f"v{number}" for number in (1, 2)]
    for seed, folder in enumerate(folders):
        make_policy_folder(folder, seed, sharpness=3.0, config=SERVABLE)
    before = children(os.getpid())
    engine = make_engine(vllm_settings(inference_processes=2))
    assert isinstance(engine, ReplicaEngine)
    try:
        for number, folder in enumerate(folders, start=1):
            policy = PolicyVersion(version=number, digest=checkpoint.digest(folder))
            await engine.load(update_of(folder, policy))
            asked = (engine.generate([n], SamplingParams(max_tokens=8)) for n in range(1, 17))
            drawn = await asyncio.gather(*asked)
            assert {c.policy for completions in drawn for c in completions} == {policy}
        processes = children(os.getpid()) - before
        assert len(processes) == 2
        os.killpg(processes.pop(), signal.SIGKILL)
        asked = (engine.generate([n], SamplingParams(max_tokens=8)) for n in range(1, 17))
        drawn = await asyncio.gather(*asked)
        assert {c.policy for completions in drawn for c in completions} == {policy}
        async with asyncio.timeout(START_TIMEOUT_S):
            while any(one.failure for one in engine.replicas.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        assert {one.policy for one in engine.replicas.values()} == {policy}
    finally:
        await engine.close()
