"""How requests are sent out of a server for new weights; a scripted one stands for a vLLM here."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from assay_inference.engines.child.child import Sync
from assay_inference.engines.child.engine import SupervisedEngine
from assay_inference.engines.child.http import Drawn
from assay_inference.engines.vllm.child import VllmReplica
from assay_inference.settings import InferenceSettings
from assay_inference.weights.checkpoint import Checkpoint
from assay_shared.errors import TimedOut
from assay_shared.types import FinishReason, PolicyVersion, SamplingParams, SyncMode

OLD, NEW = (PolicyVersion(version=number, digest=f"d{number}") for number in (1, 2))


class Vocabulary:
    end_ids = frozenset({0})

    def check_fits(self, prompt: list[int], sampling: SamplingParams) -> None:
        pass

    def decode(self, token_ids: list[int]) -> str:
        return "".join(map(chr, token_ids))


class PausableApi:
    """Draws two letters and then hangs until it is paused, or resumed with new weights in it."""

    def __init__(self) -> None:
        self.is_new = False
        self.is_deaf = False
        self.num_pauses = self.num_resumes = 0
        self._given_up: set[asyncio.Event] = set()

    async def generate(
        self, prompt: list[int], sampling: SamplingParams, ends: frozenset[int], timeout_s: float
    ) -> list[Drawn]:
        if self.is_new:
            left = sampling.max_tokens
            return [Drawn([ord("n")] * left, [-2.0] * left, FinishReason.LENGTH)]
        given_up = asyncio.Event()
        self._given_up.add(given_up)
        await given_up.wait()
        return [Drawn([ord("o")] * 2, [-1.0] * 2, None)]

    async def pause(self, timeout_s: float) -> None:
        self.num_pauses += 1
        if not self.is_deaf:
            for given_up in self._given_up:
                given_up.set()

    async def resume(self, timeout_s: float) -> None:
        self.num_resumes += 1


async def serving(api: PausableApi, **settings: object) -> SupervisedEngine:
    engine = SupervisedEngine(InferenceSettings.model_validate(settings), VllmReplica)
    checkpoint = SimpleNamespace(vocabulary=Vocabulary(), policy=OLD)
    engine._served = cast(Checkpoint, checkpoint)
    engine._replica = cast(VllmReplica, SimpleNamespace(api=api, checkpoint=checkpoint))
    await engine._gate.open()
    return engine


async def swap(engine: SupervisedEngine, api: PausableApi, mode: SyncMode) -> None:
    replica = engine._replica
    assert replica is not None
    await engine._clear(replica, mode, Sync())
    assert engine._gate.num_inside == 0
    api.is_new = True
    replica.checkpoint = cast(Checkpoint, SimpleNamespace(vocabulary=Vocabulary(), policy=NEW))
    await engine._gate.open()


@pytest.mark.parametrize(
    ("mode", "text", "policies"),
    [(SyncMode.RESTART, "nnnnnn", (NEW,)), (SyncMode.CONTINUE, "oonnnn", (OLD, NEW))],
)
async def test_what_is_in_hand_comes_out_and_goes_in_again(
    mode: SyncMode, text: str, policies: tuple[PolicyVersion, ...]
) -> None:
    api = PausableApi()
    engine = await serving(api)
    sampling = SamplingParams(max_tokens=6)
    drawing = [asyncio.create_task(engine.generate([1], sampling)) for _ in range(3)]
    await asyncio.sleep(0)
    await swap(engine, api, mode)
    for (completion,) in await asyncio.gather(*drawing):
        assert completion.text == text
        assert tuple(span.policy for span in completion.spans) == policies


async def test_what_was_on_its_way_when_vllm_paused_is_given_up_too() -> None:
    api = PausableApi()
    engine = await serving(api)
    api.is_deaf = True
    drawing = asyncio.create_task(engine.generate([1], SamplingParams(max_tokens=6)))
    await asyncio.sleep(0)
    swapping = asyncio.create_task(swap(engine, api, SyncMode.CONTINUE))
    while api.num_pauses < 2:  # noqa: ASYNC110  # it is asked again until all are out
        await asyncio.sleep(0.01)
    api.is_deaf = False
    await swapping
    ((completion,),) = await asyncio.gather(drawing)
    assert completion.text == "oonnnn"


async def test_what_does_not_come_out_in_time_leaves_all_as_it_was() -> None:
    api = PausableApi()
    api.is_deaf = True
    engine = await serving(api, inference_drain_timeout_s=0.1)
    drawing = asyncio.create_task(engine.generate([1], SamplingParams(max_tokens=6)))
    await asyncio.sleep(0)
    with pytest.raises(TimedOut, match="1 sequences still run"):
        await swap(engine, api, SyncMode.RESTART)
    assert api.num_resumes == 1
    assert not drawing.done()
    drawing.cancel()
