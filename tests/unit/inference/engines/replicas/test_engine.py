"""The router over replicas under orders: a single version at a time, each request once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from assay_inference.engines.engine import Loaded, OnText, ResolvedUpdate
from assay_inference.engines.replicas.discovery import LocalChildren
from assay_inference.engines.replicas.engine import ReplicaEngine
from assay_inference.engines.replicas.replica import Replica
from assay_inference.engines.transformers.engine import TransformersEngine
from assay_inference.settings import InferenceSettings
from assay_shared.errors import (
    AssayError,
    InvalidInput,
    NotReady,
    Overloaded,
    TimedOut,
    Unreachable,
    WeightsRefused,
)
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import (
    Completion,
    FinishReason,
    PolicyVersion,
    PromptLogprobs,
    SamplingParams,
    SyncMode,
    WeightReceiver,
)
from assay_shared.weights import checkpoint
from tests.support.policies import make_policy_folder, update_of

ONE = SamplingParams(max_tokens=1)


class FakeReplica:
    """Serves its given weights; `*_error` is raised in place of an answer."""

    def __init__(self) -> None:
        self.policy: PolicyVersion | None = None
        self.num_drawn = 0
        self.is_closed = False
        self.check_error: AssayError | None = None
        self.load_error: AssayError | None = None
        self.draw_error: AssayError | None = None
        #: While it is set, nothing is answered.
        self.hangs = False
        self.receiver: WeightReceiver | None = None

    async def open(self) -> None: ...

    async def check(self) -> None:
        if self.hangs:
            await asyncio.sleep(3600)
        if self.check_error:
            raise self.check_error

    async def served(self) -> PolicyVersion | None:
        return self.policy

    async def load(self, update: ResolvedUpdate) -> Loaded:
        if self.hangs:
            await asyncio.sleep(3600)
        await asyncio.sleep(0.01)
        if self.load_error:
            raise self.load_error
        self.policy = update.policy
        return Loaded(None, 0.01, phases_s={"load": 0.01})

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None
    ) -> list[Completion]:
        if on_text is not None:
            on_text(0, "x")
        if self.hangs:
            await asyncio.sleep(3600)
        await asyncio.sleep(0)
        if self.draw_error:
            raise self.draw_error
        assert self.policy is not None
        self.num_drawn += sampling.n
        one = Completion(
            token_ids=(1,),
            logprobs=(0.0,),
            text="x",
            finish_reason=FinishReason.LENGTH,
            policy=self.policy,
        )
        return [one] * sampling.n

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        if self.draw_error:
            raise self.draw_error
        assert self.policy is not None
        logprobs = (None, *(0.0 for _ in token_ids[1:]))
        return PromptLogprobs(token_ids=tuple(token_ids), logprobs=logprobs, policy=self.policy)

    def cache_use(self) -> float | None:
        return 0.25

    def own_metrics(self) -> Iterable[Metric]:
        own = GaugeMetricFamily("vllm:running", "Its own.", labels=["engine"])
        own.add_metric(["0"], self.num_drawn)
        return [own]

    async def close(self) -> None:
        self.is_closed = True


class FakeSource:
    """Three replicas; tests add and take away."""

    is_local = False

    def __init__(self) -> None:
        self.replicas = {name: FakeReplica() for name in "abc"}

    async def names(self) -> list[str]:
        return list(self.replicas)

    def make(self, name: str) -> Replica:
        return self.replicas[name]


class Router:
    """An engine over fake replicas."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.source = FakeSource()
        settings = {
            "inference_health_interval_s": 0.01,
            "inference_health_timeout_s": 0.1,
            "inference_drain_timeout_s": 5.0,
        }
        self.engine = ReplicaEngine(InferenceSettings.model_validate(settings), self.source)

    def __getitem__(self, name: str) -> FakeReplica:
        return self.source.replicas[name]

    async def publish(self, number: int, mode: SyncMode = SyncMode.WAIT) -> PolicyVersion:
        policy = PolicyVersion(version=number, digest=f"d{number}")
        await self.engine.load(update_of(self._folder, policy, mode=mode))
        return policy

    async def ask(
        self, prompt: int = 1, sampling: SamplingParams = ONE, on_text: OnText | None = None
    ) -> PolicyVersion:
        (policy,) = {c.policy for c in await self.engine.generate([prompt], sampling, on_text)}
        return policy

    async def owner(self, prompt: int = 1) -> FakeReplica:
        """Return the sampling replica of a prompt."""
        before = {name: one.num_drawn for name, one in self.source.replicas.items()}
        await self.ask(prompt)
        (owner,) = (n for n, one in self.source.replicas.items() if one.num_drawn > before[n])
        return self[owner]

    def serving(self) -> set[str]:
        return {
            name
            for name, status in self.engine.replicas.items()
            if status.failure is None and status.policy == self.engine.policy
        }

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not is_so():  # noqa: ASYNC110  # nobody announces it
                await asyncio.sleep(0.005)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    quiet_transformers()
    folder = tmp_path_factory.mktemp("policies") / "v0"
    make_policy_folder(folder)
    return folder


@pytest.fixture
async def router(folder: Path) -> AsyncIterator[Router]:
    router = Router(folder)
    yield router
    await router.engine.close()
    assert all(replica.is_closed for replica in router.source.replicas.values())


async def test_nothing_is_served_before_the_first_version(router: Router) -> None:
    with pytest.raises(NotReady, match="no weights"):
        await router.ask()
    assert not router.engine.holds_weights
    first = await router.publish(1)
    assert await router.ask() == first
    assert router.serving() == set("abc")
    assert router.engine.not_ready_because() is None


async def test_a_prompts_requests_go_to_one_replica(router: Router) -> None:
    await router.publish(1)
    owners = [{id(await router.owner(prompt)) for _ in range(3)} for prompt in range(12)]
    assert all(len(found) == 1 for found in owners)
    assert len(set.union(*owners)) == 3, "prompts spread over all"


async def test_prompts_are_read_by_another_replica_where_one_is_lost(router: Router) -> None:
    policy = await router.publish(1)
    owner = await router.owner()
    owner.draw_error = Unreachable("gone")
    read = await router.engine.prompt_logprobs([1], 0)
    assert (read.policy, read.logprobs) == (policy, (None,))


async def test_a_lost_replicas_requests_go_elsewhere_once(router: Router) -> None:
    policy = await router.publish(1)
    owner = await router.owner()
    owner.draw_error = owner.check_error = Unreachable("gone")
    assert await router.ask() == policy
    await router.until(lambda: len(router.serving()) == 2)
    for replica in router.source.replicas.values():
        replica.draw_error = Unreachable("gone")
    with pytest.raises(NotReady, match="a replica was lost on the way: gone"):
        await router.ask()


async def test_too_much_to_do_goes_to_the_next_once(router: Router) -> None:
    policy = await router.publish(1)
    owner = await router.owner()
    owner.draw_error = Overloaded("full")
    assert await router.ask() == policy
    assert router.serving() == set("abc"), "it is busy, and not out of order"
    for replica in router.source.replicas.values():
        replica.draw_error = Overloaded("full")
    with pytest.raises(Overloaded, match="full"):
        await router.ask()


async def test_bad_input_is_not_asked_twice(router: Router) -> None:
    await router.publish(1)
    owner = await router.owner()
    owner.draw_error = InvalidInput("no")
    with pytest.raises(InvalidInput):
        await router.ask()


async def test_a_replica_that_hangs_is_given_up_and_its_requests_go_elsewhere(
    router: Router,
) -> None:
    policy = await router.publish(1)
    owner = await router.owner()
    owner.hangs = True
    assert await asyncio.wait_for(router.ask(), 20) == policy
    assert len(router.serving()) == 2
    owner.hangs = False
    await router.until(lambda: len(router.serving()) == 3)


async def test_texts_that_were_sent_are_not_drawn_again_elsewhere(router: Router) -> None:
    await router.publish(1)
    owner = await router.owner()
    owner.draw_error = Unreachable("gone")
    texts: list[str] = []
    with pytest.raises(NotReady, match="lost on the way"):
        await router.ask(on_text=lambda _, text: texts.append(text))
    assert texts == ["x"]


async def test_an_answer_of_another_version_is_never_passed_on(router: Router) -> None:
    """A replica was restarted with old weights, and has not been checked since."""
    policy = await router.publish(2)
    owner = await router.owner()
    owner.policy = PolicyVersion(version=0, digest="old")
    assert {await router.ask() for _ in range(5)} == {policy}
    await router.until(lambda: owner.policy == policy and len(router.serving()) == 3)


async def test_a_publish_waits_for_what_runs_and_holds_what_comes(router: Router) -> None:
    await router.publish(1)
    seen: list[int] = []

    async def ask_on() -> None:
        while not seen or seen[-1] < 4:
            seen.append((await router.ask(len(seen))).version)

    asking = [asyncio.create_task(ask_on()) for _ in range(4)]
    for number in (2, 3, 4):
        await router.publish(number)
        assert {r.policy.version for r in router.source.replicas.values() if r.policy} == {number}
    await asyncio.gather(*asking)
    assert seen == sorted(seen)


@pytest.mark.slow
async def test_a_replica_that_fails_a_publish_is_out_until_it_has_the_version(
    router: Router,
) -> None:
    await router.publish(1)
    router["a"].load_error = WeightsRefused("its disk is full")
    policy = await router.publish(2)
    assert router.serving() == set("bc")
    status = router.engine.replicas["a"]
    assert status.policy is not None
    assert status.policy.version == 1
    assert {await router.ask(prompt) for prompt in range(12)} == {policy}
    router["a"].load_error = None
    await router.until(lambda: router.serving() == set("abc"))


async def test_a_publish_that_no_replica_takes_leaves_the_old_version(router: Router) -> None:
    old = await router.publish(1)
    for replica in router.source.replicas.values():
        replica.load_error = WeightsRefused("not these")
    with pytest.raises(WeightsRefused, match="not these"):
        await router.publish(2)
    assert {await router.ask(prompt) for prompt in range(12)} == {old}
    assert router.serving() == set("abc")


@pytest.mark.slow
async def test_a_replica_that_hangs_does_not_hold_up_a_publish(router: Router) -> None:
    await router.publish(1)
    router["a"].hangs = True
    policy = await asyncio.wait_for(router.publish(2), 20)
    assert await router.ask() == policy
    failure = router.engine.replicas["a"].failure
    assert failure is not None
    assert "does not answer" in failure.message
    router["a"].hangs = False
    await router.until(lambda: router.serving() == set("abc"))


async def test_replicas_whose_engines_start_late_are_waited_for(router: Router) -> None:
    """They listen at once, and answer when their engines have started."""
    router.source.replicas = {name: FakeReplica() for name in "def"}
    for name in "def":
        router[name].hangs = True
    await router.until(lambda: router.engine.replicas.keys() == set("def"))
    publishing = asyncio.create_task(router.publish(1))
    await asyncio.sleep(0.5)  # several checks have had no answer
    assert not publishing.done()
    router["e"].hangs = False
    policy = await asyncio.wait_for(publishing, 20)
    assert await router.ask() == policy
    assert router.serving() == {"e"}
    router["d"].hangs = router["f"].hangs = False
    await router.until(lambda: router.serving() == set("def"))


async def test_a_late_joiner_gets_the_newest_version_before_any_request(router: Router) -> None:
    policy = await router.publish(7)
    late = router.source.replicas["d"] = FakeReplica()
    await router.until(lambda: router.serving() == set("abcd"))
    assert late.policy == policy
    gone = router.source.replicas.pop("a")
    await router.until(lambda: router.serving() == set("bcd") and gone.is_closed)


async def test_a_replica_of_somebody_else_is_left_alone(router: Router) -> None:
    await router.publish(1)
    router["a"].policy = PolicyVersion(version=9, digest="theirs")
    await router.until(lambda: router.serving() == set("bc"))
    failure = router.engine.replicas["a"].failure
    assert failure is not None
    assert "of somebody else" in failure.message


async def test_without_any_replica_it_says_why(router: Router) -> None:
    await router.publish(1)
    for replica in router.source.replicas.values():
        replica.check_error = TimedOut("silent")
    await router.until(lambda: not router.serving())
    assert "no replica serves version 1: a: silent" in str(router.engine.not_ready_because())
    with pytest.raises(NotReady, match="no replica serves"):
        await router.ask()


async def test_children_of_one_service_are_one_engine(folder: Path) -> None:
    settings = InferenceSettings.model_validate(
        {"inference_processes": 2, "inference_device": "cpu", "inference_max_sequences": 8}
    )
    engine = ReplicaEngine(settings, LocalChildren(settings, TransformersEngine))
    try:
        for number in (1, 2):
            policy = PolicyVersion(version=number, digest=checkpoint.digest(folder))
            await engine.load(update_of(folder, policy))
            drawn = [await engine.generate([n], SamplingParams(max_tokens=2)) for n in range(1, 9)]
            assert {c.policy for completions in drawn for c in completions} == {policy}
        assert list(engine.replicas) == ["process-0", "process-1"]
        assert engine.max_sequences == 16
    finally:
        await engine.close()


@pytest.mark.parametrize(("devices", "second"), [("", ""), ("0,1", "1"), ("0+1,2+3", "2+3")])
def test_each_child_has_its_devices(devices: str, second: str) -> None:
    given: list[InferenceSettings] = []

    def engine_of(settings: InferenceSettings) -> TransformersEngine:
        given.append(settings)
        raise NotReady("noted")

    settings = InferenceSettings.model_validate(
        {"inference_processes": 2, "inference_devices": devices}
    )
    with pytest.raises(NotReady):
        LocalChildren(settings, engine_of).make("process-1")
    assert (given[0].inference_devices, given[0].inference_processes) == (second, 1)


async def test_each_replicas_figures_have_its_name(router: Router) -> None:
    await router.publish(3)
    owner = await router.owner()
    assert router.engine.traffic().cache_use == 0.25
    samples = {
        (sample.name, sample.labels["replica"]): sample.value
        for family in router.engine.own_metrics()
        for sample in family.samples
    }
    for name, replica in router.source.replicas.items():
        assert samples["assay_inference_replica_serving", name] == 1
        assert samples["assay_inference_replica_version", name] == 3
        assert samples["assay_inference_replica_sequences_total", name] == (replica is owner)
        assert samples["vllm:running", name] == replica.num_drawn


async def test_other_modes_are_refused(router: Router) -> None:
    with pytest.raises(InvalidInput, match="mode"):
        await router.publish(1, SyncMode.RESTART)
