"""Prompts read in chunks between the steps of others."""

import asyncio
from pathlib import Path

import pytest
import torch

from assay_inference.engines.transformers.model import LoadedModel, open_model
from assay_inference.engines.transformers.prompt_reading import Read, Readings
from assay_shared.errors import NotReady
from assay_shared.types import PolicyVersion, PromptLogprobs
from tests.support.policies import make_policy_folders

IDS = [5 + place % 90 for place in range(150)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[LoadedModel]:
    folders: list[Path] = make_policy_folders(tmp_path_factory.mktemp("policies"), 2)
    return [
        open_model(folder, PolicyVersion(version=number, digest="d"), torch.device("cpu"))
        for number, folder in enumerate(folders)
    ]


def expected(model: LoadedModel, ids: list[int]) -> list[float]:
    with torch.inference_mode():
        logprobs_TV = model.network(torch.tensor([ids])).logits[0].log_softmax(-1)
    return logprobs_TV[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()  # type: ignore[no-any-return]


async def finish(readings: Readings, job: Read, model: LoadedModel) -> PromptLogprobs:
    with torch.inference_mode():
        while readings:
            readings.step(model)
    return await asyncio.wait_for(job.outcome, 5)


async def test_a_reading_that_new_weights_meet_is_all_of_the_new_ones(
    models: list[LoadedModel],
) -> None:
    readings, job = Readings(), Read(IDS, 2)
    readings.add(job)
    with torch.inference_mode():
        readings.step(models[0])
    read = await finish(readings, job, models[1])
    assert read.policy == models[1].policy
    assert read.logprobs[1:] == pytest.approx(expected(models[1], IDS), abs=1e-4)
    assert [len(top) for top in read.top_logprobs] == [0, *[2] * (len(IDS) - 1)]


async def test_readings_that_are_given_up_or_cannot_be_made_hold_up_no_other(
    models: list[LoadedModel],
) -> None:
    readings = Readings()
    jobs = [Read(IDS, 0), Read([5], 3), Read(IDS[:64], 0), Read(IDS[:65], 0)]
    for job in jobs:
        readings.add(job)
    jobs[0].outcome.cancel()
    with torch.inference_mode():
        readings.step(models[0])
    await finish(readings, jobs[-1], models[0])
    assert jobs[1].outcome.result().logprobs == (None,)
    for job in jobs[2:]:
        read = job.outcome.result()
        assert read.logprobs[1:] == pytest.approx(expected(models[0], job.token_ids), abs=1e-4)
    readings.add(late := Read(IDS, 0))
    readings.step(None)
    with pytest.raises(NotReady):
        await late.outcome


async def test_weights_that_change_all_the_time_end_a_reading_as_retryable(
    models: list[LoadedModel],
) -> None:
    readings, job = Readings(), Read(IDS, 0)
    readings.add(job)
    with torch.inference_mode():
        for number in range(40):
            if readings:
                readings.step(models[number % 2])
    with pytest.raises(NotReady) as raised:
        await job.outcome
    assert raised.value.retryable
