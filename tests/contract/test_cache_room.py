"""A service with little memory over HTTP: a request never harms another."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI

from assay_inference.api.app import create_app
from assay_inference.engines.transformers.engine import TransformersEngine
from assay_inference.engines.transformers.memory import cost_of
from assay_inference.engines.transformers.model import open_model
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import EngineFault, InvalidInput, to_failure
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import GenerateRequest, PolicyVersion, SamplingParams
from assay_shared.weights import checkpoint
from tests.conftest import Serve
from tests.support.policies import make_policy_folder

SHORT = GenerateRequest(token_ids=(5, 6, 7), sampling=SamplingParams(max_tokens=30, n=2, seed=1))
NUM_TOKENS = 60


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    quiet_transformers()
    folder: Path = tmp_path_factory.mktemp("policies") / "v0"
    make_policy_folder(folder)
    policy = PolicyVersion(version=0, digest=checkpoint.digest(folder))
    cost = cost_of(open_model(folder, policy, torch.device("cpu")).network)
    values = {
        "inference_device": "cpu",
        "inference_model": folder,
        "inference_cache_bytes": cost.of(1, NUM_TOKENS),
    }
    return create_app(InferenceSettings.model_validate(values))


@pytest.fixture(scope="module")
def url(app: FastAPI, serve_for_all: Serve) -> str:
    return serve_for_all(app)


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


def asking(num_prompt: int, **sampling: Any) -> GenerateRequest:
    ids = tuple(5 + i % 7 for i in range(num_prompt))
    return GenerateRequest(token_ids=ids, sampling=SamplingParams.model_validate(sampling))


async def test_a_small_request_keeps_its_answer_beside_large_ones(client: InferenceClient) -> None:
    alone = await client.generate(SHORT)
    small, large, refused = await asyncio.gather(
        client.generate(SHORT),
        client.generate(asking(50, max_tokens=10, n=20)),
        client.generate(asking(10, max_tokens=118, n=3)),
        return_exceptions=True,
    )
    assert not isinstance(small, BaseException)
    assert small.completions == alone.completions
    assert not isinstance(large, BaseException)
    assert len(large.completions) == 20, "they were drawn in parts"
    assert isinstance(refused, InvalidInput)
    assert refused.field == "sampling.max_tokens"
    assert "bytes of cache" in refused.message
    assert refused.hint == f"up to {NUM_TOKENS - 10} fit after this prompt, for any n"
    fitting = await client.generate(asking(10, max_tokens=NUM_TOKENS - 10, n=3))
    assert len(fitting.completions) == 3


async def test_an_engine_fault_reaches_clients_as_one_that_may_be_tried_again(
    client: InferenceClient, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = app.state.engine
    assert isinstance(engine, TransformersEngine)

    def fail(*_: object, **__: object) -> object:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine._served().network, "forward", fail)
        with pytest.raises(EngineFault, match="ran out of memory") as fault:
            await client.generate(SHORT)
    assert to_failure(fault.value, "inference").retryable
    assert (await client.generate(SHORT)).completions
