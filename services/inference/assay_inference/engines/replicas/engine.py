"""An engine of several replicas: a single version at a time over all replicas with it.

New weights go to all replicas at once. With the mode `wait` they close the gate; with the others
each replica interrupts its own sequences. From a folder, a version is served once a replica has it;
the other replicas get no requests until they have it too. Directly from a trainer's memory, all
replicas take it or it is refused. An answer under another version is discarded and requested again
from another replica.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import TypeVar

from prometheus_client import Metric

from assay_inference.engines.engine import Loaded, OnText, ResolvedUpdate, Traffic, folder_of
from assay_inference.engines.replicas.direct import (
    JointTransfer,
    check_all_serve,
    is_direct,
    joined_receiver,
)
from assay_inference.engines.replicas.discovery import Discovery
from assay_inference.engines.replicas.metrics import replica_metrics
from assay_inference.engines.replicas.replica_state import ReplicaState
from assay_inference.engines.replicas.routing import choose
from assay_inference.engines.replicas.sent_texts import SentTexts
from assay_inference.engines.replicas.versions import AnnouncedVersions
from assay_inference.settings import InferenceSettings
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_inference.weights.checkpoint import Checkpoint
from assay_inference.weights.weight_lock import WeightLock
from assay_shared.errors import (
    AssayError,
    EngineFault,
    InvalidInput,
    NotReady,
    Overloaded,
    TimedOut,
    Unreachable,
    WeightsRefused,
)
from assay_shared.types import (
    Completion,
    PolicyVersion,
    PromptLogprobs,
    ReplicaStatus,
    SamplingParams,
    SyncMode,
    WeightDigest,
    WeightReceiver,
)

_log = logging.getLogger(__name__)
_NO_WEIGHTS = "no weights are loaded yet"
_RETRY_AFTER_S = 2.0
#: Up to this share of its batch, a replica is never too busy for another request.
_IDLE_SHARE = 8
Answer = TypeVar("Answer")


class ReplicaEngine:
    """Implements `assay_inference.engines.engine.Engine`."""

    def __init__(self, settings: InferenceSettings, source: Discovery) -> None:
        self._settings = settings
        self._source = source
        self._gate = WeightLock(_NO_WEIGHTS)
        self._members: dict[str, ReplicaState] = {}
        self._newest: ResolvedUpdate | None = None
        self._versions = AnnouncedVersions()
        #: The last direct one; members may still recover from its failure.
        self._transfer: JointTransfer | None = None
        self._vocabulary: PolicyTokenizer | None = None
        self._num_tokens = 0
        self._finding = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._finder = asyncio.create_task(self._keep_finding(), name="replica-finder")

    # What the service asks

    @property
    def vocabulary(self) -> PolicyTokenizer:
        if self._vocabulary is None:
            raise NotReady(_NO_WEIGHTS, retry_after_s=_RETRY_AFTER_S)
        return self._vocabulary

    @property
    def policy(self) -> PolicyVersion | None:
        """Return the served version."""
        return self._versions.served

    @property
    def holds_weights(self) -> bool:
        if not is_direct(self._newest):
            return self._newest is not None
        return any(member.policy in self._versions.current for member in self._members.values())

    @property
    def replicas(self) -> Mapping[str, ReplicaStatus]:
        return {name: one.status(self.policy) for name, one in self._members.items()}

    @property
    def receiver(self) -> WeightReceiver | None:
        return joined_receiver(self._members, self.policy)

    async def digest(self) -> WeightDigest:
        raise InvalidInput("ask each of several replicas at its own address")

    @property
    def max_sequences(self) -> int:
        return self._settings.inference_max_sequences * max(1, len(self._serving()))

    def not_ready_because(self) -> str | None:
        if self._newest is None or self._serving():
            return self._gate.shut_because
        reasons = "; ".join(f"{m.name}: {m.failure}" for m in self._members.values())
        return f"no replica serves version {self._newest.policy.version}: {reasons or 'none known'}"

    @property
    def max_tokens(self) -> int | None:
        return None  # each replica counts its own

    def traffic(self) -> Traffic:
        running = sum(member.num_in_flight for member in self._members.values())
        uses = [use for m in self._members.values() if (use := m.replica.cache_use()) is not None]
        return Traffic(running, self._num_tokens, max(uses, default=None))

    def own_metrics(self) -> Iterable[Metric]:
        return replica_metrics(self._members.values(), self.policy)

    def check_fits(self, prompt_token_ids: list[int], sampling: SamplingParams) -> None:
        self.vocabulary.check_fits(prompt_token_ids, sampling)

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None = None
    ) -> list[Completion]:
        texts = SentTexts(on_text)

        async def draw(member: ReplicaState) -> list[Completion]:
            drawn = await member.replica.generate(prompt_token_ids, sampling, texts.listener)
            policies = {span.policy for completion in drawn for span in completion.spans}
            self._check_version(member, policies, start)
            return drawn

        async with self._gate.inside(sampling.n):
            start = self.policy
            completions = await self._ask(prompt_token_ids, sampling.n, draw, texts)
        self._num_tokens += sum(len(completion.token_ids) for completion in completions)
        return completions

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        async def read(member: ReplicaState) -> PromptLogprobs:
            found = await member.replica.prompt_logprobs(token_ids, num_top)
            self._check_version(member, {found.policy}, start)
            return found

        async with self._gate.inside(1):
            start = self.policy
            return await self._ask(token_ids, 1, read, SentTexts(None))

    async def _ask(
        self,
        prompt: list[int],
        num_sequences: int,
        call: Callable[[ReplicaState], Awaitable[Answer]],
        texts: SentTexts,
    ) -> Answer:
        """Ask a replica; if it fails before any text was streamed, ask another."""
        first = self._choose(prompt, None)
        try:
            return await self._ask_one(first, num_sequences, call)
        except (Unreachable, NotReady, Overloaded, EngineFault) as error:
            if texts.were_sent:  # another replica's text would not continue it
                raise
            _log.info("%s: %s; asking another", first.name, error)
            second = self._choose(prompt, first, error)
            return await self._ask_one(second, num_sequences, call)

    async def close(self) -> None:
        self._finder.cancel()
        with suppress(asyncio.CancelledError):
            await self._finder
        await self._gate.shut("the engine is stopping")
        for task in tuple(self._retiring):
            task.cancel()
        await asyncio.gather(*(member.retire(0.0) for member in self._members.values()))

    # Drawing

    def _serving(self) -> list[ReplicaState]:
        current = self._versions.current
        return [member for member in self._members.values() if member.serves(current)]

    def _choose(
        self,
        prompt: Sequence[int],
        other_than: ReplicaState | None,
        error: AssayError | None = None,
    ) -> ReplicaState:
        settings = self._settings
        loads = {m.name: m.num_in_flight for m in self._serving() if m is not other_than}
        prefix = prompt[: settings.inference_prefix_tokens]
        idle_load = settings.inference_max_sequences // _IDLE_SHARE
        name = choose(prefix, loads, settings.inference_replica_spread, idle_load)
        if name is not None:
            return self._members[name]
        if error is not None:
            raise error
        raise NotReady(self.not_ready_because() or _NO_WEIGHTS, retry_after_s=_RETRY_AFTER_S)

    async def _ask_one(
        self,
        member: ReplicaState,
        num_sequences: int,
        call: Callable[[ReplicaState], Awaitable[Answer]],
    ) -> Answer:
        num_given = member.num_given
        member.num_in_flight += num_sequences
        try:
            answer = await member.call(lambda: call(member))
        except (Unreachable, NotReady) as error:
            if isinstance(error, NotReady) and member.num_given > num_given:
                member.count(error)  # new weights interrupted it
            else:
                member.fail(error)
            raise _elsewhere(error) from error
        except (Overloaded, TimedOut, EngineFault) as error:
            member.count(error)
            raise
        finally:
            member.num_in_flight -= num_sequences
        member.num_drawn += num_sequences
        return answer

    def _check_version(
        self, member: ReplicaState, policies: Set[PolicyVersion], start: PolicyVersion | None
    ) -> None:
        """Check the versions of a replica's answer; `start` was served as the request came.

        Raises:
            NotReady: the replica answered under another version than those served meanwhile.
        """
        if not policies <= self._versions.since(start):
            raise NotReady(f"{member.name} serves another version", retry_after_s=_RETRY_AFTER_S)

    # Weights

    async def load(self, update: ResolvedUpdate) -> Loaded:
        is_wait = update.mode is SyncMode.WAIT
        if not is_wait and not self._source.is_local:
            raise InvalidInput(
                f"services behind one address finish the sequences in flight; {update.mode} "
                "does not",
                field="mode",
                hint="publish with mode wait; a run sets it by grpo.sync",
            )
        started = time.perf_counter()
        await self._find_living()
        vocabulary, opened_at = await self._vocabulary_of(update), time.perf_counter()
        if is_wait and self._newest is not None:
            await self._gate.hold(self._settings.inference_drain_timeout_s)
        drained_s = time.perf_counter() - opened_at
        self._versions.announce(update.policy)
        is_taken = False
        try:
            loaded = await self._give_all(update)
            self._newest, self._vocabulary, is_taken = update, vocabulary, True
        finally:
            self._versions.settle(is_served=is_taken)
            if self._newest is not None:
                await self._gate.open()
        return Loaded(
            probe_difference=max((x.probe_difference or 0.0 for x in loaded), default=None)
            if update.probe
            else None,
            load_time_s=time.perf_counter() - started,
            num_compared=min((x.num_compared for x in loaded if x.num_compared), default=None),
            num_tensors=min((x.num_tensors for x in loaded if x.num_tensors), default=None),
            phases_s=_longest([*loaded, Loaded(None, 0.0, phases_s={"drain": drained_s})]),
        )

    async def _vocabulary_of(self, update: ResolvedUpdate) -> PolicyTokenizer:
        """Return the vocabulary of new weights; nothing has changed if they cannot be taken."""
        if is_direct(update) and self._source.is_local:
            check_all_serve(self._members, self.policy)
            return self.vocabulary
        folder = folder_of(update)
        opened = await asyncio.to_thread(Checkpoint.open, folder, update.policy, None, None)
        return opened.vocabulary

    async def _give_all(self, update: ResolvedUpdate) -> list[Loaded]:
        """Return the results of the replicas that took the update.

        Raises:
            AssayError: no replica took it (the first replica's error), or one did not take a direct
                transfer.
        """
        if is_direct(update):
            check_all_serve(self._members, self.policy)
            self._transfer = JointTransfer(update, dict(self._members))
            return await self._transfer.run()
        members = [member for member in self._members.values() if not member.is_lost]
        found = await asyncio.gather(
            *(member.give(update) for member in members), return_exceptions=True
        )
        loaded = [one for one in found if isinstance(one, Loaded)]
        errors = [one for one in found if isinstance(one, BaseException)]
        for error in errors:
            if not isinstance(error, AssayError):
                raise error
            _log.warning("a replica does not take version %d: %s", update.policy.version, error)
        if loaded:
            return loaded
        if not errors:
            raise NotReady("there is no replica", retry_after_s=_RETRY_AFTER_S)
        raise next((e for e in errors if isinstance(e, WeightsRefused)), errors[0])

    # Members

    async def _keep_finding(self) -> None:
        while True:
            try:
                await self._find()
            except Unreachable as error:
                _log.warning("%s", error)
            await asyncio.sleep(self._settings.inference_health_interval_s)

    async def _find(self) -> None:
        """Add replicas listed for the first time and retire replicas no longer listed."""
        async with self._finding:
            names = await self._source.names()
            for name in names:
                if name not in self._members:
                    await self._take_in(name)
            for name in self._members.keys() - set(names):
                member = self._members.pop(name)
                leaving = member.retire(self._settings.inference_request_timeout_s)
                task = asyncio.create_task(leaving)
                self._retiring.add(task)
                task.add_done_callback(self._retiring.discard)

    async def _find_living(self) -> None:
        """Find replicas; wait until each was checked and one lives, as an engine may start late.

        A replica whose engine starts listens already, and answers once it has started.
        """
        settings = self._settings
        with suppress(TimeoutError):
            async with asyncio.timeout(settings.inference_start_timeout_s):
                while True:
                    with suppress(Unreachable):  # those known before are enough
                        await self._find()
                    members = tuple(self._members.values())
                    await asyncio.gather(*(member.checked.wait() for member in members))
                    if any(not member.is_lost for member in members):
                        return
                    await asyncio.sleep(settings.inference_health_interval_s)

    async def _take_in(self, name: str) -> None:
        settings = self._settings
        replica = self._source.make(name)
        await replica.open()
        member = self._members[name] = ReplicaState(name, replica)
        watching = member.watch(
            lambda: None if self._versions.coming else self._newest,
            settings.inference_health_interval_s,
            settings.inference_health_timeout_s,
        )
        member.watcher = asyncio.create_task(watching, name=f"watch-{name}")


def _elsewhere(error: AssayError) -> AssayError:
    """Return the error for the router's client, who may retry."""
    if isinstance(error, NotReady):
        return error
    return NotReady(f"a replica was lost on the way: {error.message}", retry_after_s=_RETRY_AFTER_S)


def _longest(loaded: Iterable[Loaded]) -> dict[str, float]:
    """Return the seconds of each phase on the slowest replica."""
    phases: dict[str, float] = {}
    for one in loaded:
        for name, seconds in one.phases_s.items():
            phases[name] = max(seconds, phases.get(name, 0.0))
    return phases
