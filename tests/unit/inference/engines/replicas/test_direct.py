"""A direct transfer to local replicas under orders: all take it, or it fails at once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay_inference.engines.engine import Loaded, OnText, ResolvedUpdate
from assay_inference.weights.checkpoint import WorkerPlace
from assay_shared.errors import AssayError, InvalidInput, NotReady, Unreachable, WeightsRefused
from assay_shared.types import (
    Completion,
    DirectWeights,
    FinishReason,
    PolicyVersion,
    SamplingParams,
    SyncMode,
    TensorSpec,
    VersionSpan,
    WeightReceiver,
)
from tests.support.policies import make_policy_folder
from tests.unit.inference.engines.replicas.test_engine import ONE, FakeReplica, Router

GPU = WeightReceiver(devices=("GPU-1", "GPU-1"), dtype="bfloat16")


class LocalFake(FakeReplica):
    """Holds two workers; `place` is the last that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.receiver = GPU
        self.place: WorkerPlace | None = None
        #: It tells the others of this failure, and then recovers without end.
        self.tells: AssayError | None = None
        #: It loses what it served where a load fails.
        self.loses = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self, update: ResolvedUpdate) -> Loaded:
        self.place = update.place
        if self.tells and self.place:
            self.place.on_failure(self.tells)
            await asyncio.sleep(3600)
        await self.gate.wait()
        if self.load_error and self.loses:
            self.policy = None
        return await super().load(update)


class LocalRouter(Router):
    """Three local replicas; its first version came by a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fakes = {name: LocalFake() for name in "abc"}
        self.source.replicas = dict(self.fakes)
        self.source.is_local = True

    async def send(self, number: int, mode: SyncMode = SyncMode.WAIT) -> PolicyVersion:
        """Announce a direct transfer."""
        policy = PolicyVersion(version=number, digest=f"m{number}")
        spec = TensorSpec(name="w", shape=(1,), dtype="bfloat16", fingerprint="0" * 16)
        source = DirectWeights(
            transport="ipc",
            host="127.0.0.1",
            port=1,
            token="t" * 32,
            announcement=number,
            bucket_bytes=1,
            tensors=(spec,),
        )
        await self.engine.load(ResolvedUpdate(source=source, policy=policy, mode=mode))
        return policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "v0"
    make_policy_folder(folder)
    return folder


@pytest.fixture
async def router(folder: Path) -> AsyncIterator[LocalRouter]:
    router = LocalRouter(folder)
    yield router
    await router.engine.close()


async def test_the_workers_of_all_replicas_are_one_receiver(router: LocalRouter) -> None:
    assert router.engine.receiver is None, "none serves yet"
    await router.publish(1)
    assert router.engine.receiver == WeightReceiver(devices=("GPU-1",) * 6, dtype="bfloat16")
    router.fakes["b"].receiver = WeightReceiver(devices=("GPU-1",), dtype="float32")
    assert router.engine.receiver is None, "of two types"
    router.fakes["b"].receiver = None
    assert router.engine.receiver is None, "it takes folders"
    router.fakes["b"].receiver = GPU
    router["b"].check_error = Unreachable("gone")
    await router.until(lambda: router.engine.receiver is None)


async def test_each_replica_has_its_own_place_among_all_workers(router: LocalRouter) -> None:
    await router.publish(1)
    policy = await router.send(2)
    assert router.engine.policy == policy
    assert await router.ask() == policy
    places = [one.place for one in router.fakes.values()]
    assert [(p.first, p.num_workers) for p in places if p] == [(0, 6), (2, 6), (4, 6)]


async def test_a_place_never_travels() -> None:
    place = WorkerPlace(0, 1, lambda error: None)
    update = ResolvedUpdate.model_validate(
        {
            "source": {"kind": "folder", "path": "/x"},
            "policy": {"version": 1, "digest": "d"},
            "place": place,
        }
    )
    assert "place" not in update.model_dump()


async def test_the_first_version_comes_by_a_folder(router: LocalRouter) -> None:
    with pytest.raises(WeightsRefused, match="first version has to come by a folder"):
        await router.send(1)


async def test_a_replica_behind_an_address_takes_folders_and_finishes_what_is_in_flight(
    router: LocalRouter,
) -> None:
    router.source.is_local = False
    await router.publish(1)
    with pytest.raises(InvalidInput, match="only from a folder"):
        await router.send(2)
    with pytest.raises(InvalidInput, match="continue does not.*grpo.sync"):
        await router.publish(2, SyncMode.CONTINUE)


async def test_a_replica_that_does_not_serve_is_named_and_nothing_changes(
    router: LocalRouter,
) -> None:
    old = await router.publish(1)
    router["b"].check_error = Unreachable("gone")
    await router.until(lambda: router.serving() == set("ac"))
    with pytest.raises(WeightsRefused, match="b does not serve version 1: gone"):
        await router.send(2)
    assert await router.ask() == old
    assert all(one.place is None for one in router.fakes.values())


async def test_one_failure_fails_it_and_the_others_are_not_waited_for(
    router: LocalRouter,
) -> None:
    """Two wait for a trainer that will send no more; it is told before they give up."""
    old = await router.publish(1)
    router.fakes["b"].tells = Unreachable("killed")
    for name in "ac":
        router.fakes[name].gate.clear()
    with pytest.raises(NotReady, match="b did not take version 2 directly: killed"):
        await asyncio.wait_for(router.send(2), 10)
    assert router.engine.policy == old


async def test_after_a_failure_a_folder_brings_all_together(router: LocalRouter) -> None:
    await router.publish(1)
    router["b"].load_error = WeightsRefused("a bit flipped")
    with pytest.raises(WeightsRefused, match="b did not take version 2 directly: a bit flipped"):
        await router.send(2)
    router["b"].load_error = None
    newest = await router.publish(2)
    assert newest.digest == "d2"
    assert router.serving() == set("abc")
    assert {await router.ask(prompt) for prompt in range(12)} == {newest}
    assert (await router.send(3)).version == 3, "directly again"


async def test_a_replica_that_got_ahead_gets_the_served_version_back(
    router: LocalRouter,
) -> None:
    old = await router.publish(1)
    router["b"].load_error = WeightsRefused("a bit flipped")
    with pytest.raises(WeightsRefused):
        await router.send(2)
    await router.until(lambda: router["a"].policy == old and router.serving() == set("abc"))


async def test_a_lost_direct_version_is_not_given_again(router: LocalRouter) -> None:
    await router.publish(1)
    served = await router.send(2)
    router["a"].policy = None
    router.fakes["a"].place = None
    await router.until(lambda: router.serving() == set("bc"))
    await asyncio.sleep(0.1)
    assert router.fakes["a"].place is None, "its trainer no longer waits"
    assert {await router.ask(prompt) for prompt in range(12)} == {served}
    failure = router.engine.replicas["a"].failure
    assert failure is not None
    assert "version 2 came directly, and is lost here" in failure.message
    assert router.engine.holds_weights
    newest = await router.publish(3)
    assert router.serving() == set("abc")
    assert await router.ask() == newest


async def test_a_direct_version_that_all_have_lost_is_told(router: LocalRouter) -> None:
    await router.publish(1)
    await router.send(2)
    for one in router.fakes.values():
        one.load_error, one.loses = WeightsRefused("cut off"), True
    with pytest.raises(WeightsRefused, match="cut off"):
        await router.send(3)
    await router.until(lambda: not router.engine.holds_weights)
    with pytest.raises(NotReady, match="no replica serves version 2"):
        await router.ask()
    for one in router.fakes.values():
        one.load_error = None
    newest = await router.publish(3)
    assert router.engine.holds_weights
    assert await router.ask() == newest


class Spanning(LocalFake):
    """Answers with the given spans, once it may."""

    spans: tuple[PolicyVersion, ...] = ()

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None
    ) -> list[Completion]:
        (plain,) = await super().generate(prompt_token_ids, sampling, on_text)
        if not self.spans:
            return [plain]
        spans = tuple(VersionSpan(policy=policy, num_tokens=1) for policy in self.spans)
        number = len(spans)
        return [
            Completion(
                token_ids=(1,) * number,
                logprobs=(0.0,) * number,
                text="x" * number,
                finish_reason=FinishReason.LENGTH,
                policy=self.spans[-1],
                versions=spans if number > 1 else (),
            )
        ]


async def test_requests_go_on_while_weights_come_and_none_is_of_an_unknown_version(
    router: LocalRouter,
) -> None:
    old = await router.publish(1)
    for name in "abc":
        router.fakes[name].gate.clear()
    sending = asyncio.create_task(router.send(2, SyncMode.CONTINUE))
    await router.until(lambda: all(one.place for one in router.fakes.values()))
    assert await router.ask() == old, "the gate is open"
    router.fakes["a"].gate.set()
    await router.until(lambda: router["a"].policy != old)
    seen = {(await router.ask(prompt)).version for prompt in range(24)}
    assert seen == {1, 2}, "no replica waits for another"
    for one in router.fakes.values():
        one.gate.set()
    assert await router.ask() == await sending


@pytest.mark.parametrize(
    ("versions", "is_passed_on"),
    [((2,), True), ((1, 2), False), ((2, 9), False), ((9,), False), ((1,), False)],
)
async def test_only_versions_since_the_request_are_in_an_answer(
    folder: Path, versions: tuple[int, ...], is_passed_on: bool
) -> None:
    router = LocalRouter(folder)
    only = Spanning()
    router.source.replicas = {"a": only}
    try:
        await router.publish(1)
        await router.publish(2)
        only.spans = tuple(PolicyVersion(version=n, digest=f"d{n}") for n in versions)
        if is_passed_on:
            assert (await router.ask()).version == versions[-1]
        else:
            with pytest.raises(NotReady, match="a serves another version"):
                await router.engine.generate([1], ONE)
    finally:
        await router.engine.close()
