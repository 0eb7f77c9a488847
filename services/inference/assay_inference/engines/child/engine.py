"""An engine in a server process: a supervised child with proven weights.

A lock orders all changes of the served weights. New weights close the gate, wait for sequences in
flight, and open it again; a lost child closes it until another child serves the same version.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Mapping

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from assay_inference.engines.child.child import EngineChild, Sync, lost
from assay_inference.engines.child.generation import ChildGeneration, read_prompt
from assay_inference.engines.child.http import Pausable
from assay_inference.engines.child.process import RestartBudget
from assay_inference.engines.engine import Loaded, OnText, ResolvedUpdate, Traffic, folder_of
from assay_inference.settings import InferenceSettings
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_inference.weights import direct
from assay_inference.weights.checkpoint import Checkpoint
from assay_inference.weights.weight_lock import WeightLock
from assay_shared.errors import (
    AssayError,
    EngineFault,
    InfrastructureError,
    InternalFault,
    InvalidInput,
    NotReady,
    TimedOut,
    Unreachable,
    WeightsRefused,
)
from assay_shared.types import (
    Completion,
    DirectWeights,
    PromptLogprobs,
    ReplicaStatus,
    SamplingParams,
    SyncMode,
    WeightDigest,
    WeightReceiver,
)

_log = logging.getLogger(__name__)
_WATCH_S = 0.2
_PAUSE_AGAIN_S = 0.05
_STOP_GRACE_S = 10.0
_RETRY_AFTER_S = 5.0


class SupervisedEngine:
    """Implements `assay_inference.engines.engine.Engine`, for each kind of `EngineChild`."""

    def __init__(self, settings: InferenceSettings, kind: type[EngineChild]) -> None:
        self._settings = settings
        self._kind = kind
        self._starting = f"{kind.name} is starting again"
        self.max_sequences = settings.inference_max_sequences
        self._gate = WeightLock("no weights are loaded yet")
        self._changing = asyncio.Lock()
        self._replica: EngineChild | None = None
        self._served: Checkpoint | None = None
        #: Mode of the sequences in flight while new weights interrupt them.
        self._interrupting: SyncMode | None = None
        #: The last that came by a folder: all but the weights of others is as it is there.
        self._base: Checkpoint | None = None
        self.receiver: WeightReceiver | None = None
        #: While the child loads, it answers nothing else.
        self.is_loading = False
        self._watcher: asyncio.Task[None] | None = None
        self._metrics: list[Metric] = []
        self._num_tokens = 0

    # What the service asks

    @property
    def vocabulary(self) -> PolicyTokenizer:
        if self._served is None:
            raise NotReady(self._gate.shut_because or self._starting, retry_after_s=_RETRY_AFTER_S)
        return self._served.vocabulary

    def not_ready_because(self) -> str | None:
        return self._gate.shut_because

    @property
    def holds_weights(self) -> bool:
        return self._served is not None

    @property
    def child_pid(self) -> int | None:
        """The process group of the child."""
        return None if self._replica is None else self._replica.process.pid

    @property
    def replicas(self) -> Mapping[str, ReplicaStatus]:
        return {}

    @property
    def max_tokens(self) -> int | None:
        return None  # the server itself puts off what has no room yet

    def traffic(self) -> Traffic:
        name = self._kind.cache_use_metric
        uses = [s.value for m in self._metrics if m.name == name for s in m.samples]
        running = min(self._gate.num_inside, self.max_sequences)
        return Traffic(running, self._num_tokens, max(uses, default=None))

    def own_metrics(self) -> Iterable[Metric]:
        return self._metrics

    def check_fits(self, prompt_token_ids: list[int], sampling: SamplingParams) -> None:
        self.vocabulary.check_fits(prompt_token_ids, sampling)
        self._kind.check_sampling(sampling, self._settings)

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None = None
    ) -> list[Completion]:
        self.check_fits(prompt_token_ids, sampling)
        timeout_s = self._settings.inference_request_timeout_s
        drawing = ChildGeneration(prompt_token_ids, sampling, on_text, timeout_s)
        while not drawing.is_finished:
            async with self._gate.inside(sampling.n):
                await self._go_on(drawing)
        completions = drawing.completions()
        self._num_tokens += sum(len(completion.token_ids) for completion in completions)
        return completions

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        async with self._gate.inside(1):
            replica = self._replica
            if replica is None:
                raise NotReady(self._starting, retry_after_s=_RETRY_AFTER_S)
            timeout_s = self._settings.inference_request_timeout_s
            try:
                return await read_prompt(replica, token_ids, num_top, timeout_s)
            except Unreachable as error:
                raise lost(error) from error

    async def _go_on(self, drawing: ChildGeneration) -> None:
        replica = self._replica
        if replica is None:
            raise NotReady(self._starting, retry_after_s=_RETRY_AFTER_S)
        try:
            await drawing.go_on(replica)
            if not drawing.is_finished and self._interrupting is None:
                raise Unreachable(f"{self._kind.name}'s answer breaks off")
        except Unreachable as error:
            raise lost(error) from error
        if not drawing.is_finished and self._interrupting is SyncMode.RESTART:
            drawing.redraw()

    async def digest(self) -> WeightDigest:
        async with self._changing:
            if self._replica is None or self._served is None:
                raise NotReady(
                    self._gate.shut_because or self._starting, retry_after_s=_RETRY_AFTER_S
                )
            return await self._replica.digest()

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        await self._gate.shut("the engine is stopping")
        if self._replica is not None:
            await self._replica.end(_STOP_GRACE_S)

    # Weights

    async def load(self, update: ResolvedUpdate) -> Loaded:
        self._kind.check_update(update)
        started, sync = time.perf_counter(), Sync()
        async with self._changing:
            checkpoint = await asyncio.to_thread(self._open, update)
            if self._replica is None and checkpoint.direct is None:
                await self._start_first(checkpoint, sync)
            else:
                replica = self._replica or await self._start_empty(sync)
                await self._clear(replica, update.mode, sync)
                await self._swap(replica, self._served, checkpoint, sync)
            if self._watcher is None:
                self._watcher = asyncio.create_task(self._watch(), name="engine-watcher")
        return Loaded(
            probe_difference=sync.probe_difference,
            load_time_s=time.perf_counter() - started,
            num_compared=sync.coverage and sync.coverage.num_compared,
            num_tensors=sync.coverage and sync.coverage.num_tensors,
            phases_s=sync.phases_s,
        )

    def _open(self, update: ResolvedUpdate) -> Checkpoint:
        if not isinstance(update.source, DirectWeights):
            known = self._served or (self._base if self._replica is not None else None)
            return Checkpoint.open(folder_of(update), update.policy, update.probe, known)
        source, place = update.source, update.place
        return direct.open_checkpoint(source, update, self._base, self.receiver, place)

    async def _start_empty(self, sync: Sync) -> EngineChild:
        """Return a child for weights from a trainer's memory; its own weights are never served."""
        base = self._base
        if base is None or not base.folder.is_dir():
            raise WeightsRefused("no engine runs, and there is no folder left to start one with")
        await self._start(base, sync)
        self._served = None
        assert self._replica is not None
        return self._replica

    async def _start_first(self, checkpoint: Checkpoint, sync: Sync) -> None:
        await self._gate.shut(f"{self._kind.name} is starting")
        try:
            await self._start(checkpoint, sync)
        except AssayError as error:
            await self._gate.shut(f"no weights are loaded: {error.message}")
            if isinstance(error, Unreachable):
                raise WeightsRefused(f"{checkpoint.folder}: {error.message}") from error
            raise
        await self._gate.open()

    async def _clear(self, replica: EngineChild, mode: SyncMode, sync: Sync) -> None:
        """Close the gate until nothing is in flight.

        Raises:
            TimedOut: a sequence is still in flight; nothing has changed.
        """
        timeout_s = self._settings.inference_drain_timeout_s
        with sync.phase("drain"):
            if mode is SyncMode.WAIT:
                return await self._gate.hold(timeout_s)
            api = replica.api
            assert isinstance(api, Pausable), "it has this mode"
            self._interrupting = mode
            try:
                await self._send_out(api, timeout_s)
            except BaseException:
                await api.resume(self._settings.inference_load_timeout_s)
                raise
            finally:
                self._interrupting = None

    async def _send_out(self, api: Pausable, timeout_s: float) -> None:
        """Have the child give up all sequences in flight, including requests on their way to it."""
        holding = asyncio.create_task(self._gate.hold(timeout_s))
        try:
            while not holding.done():
                with contextlib.suppress(Unreachable, TimedOut):  # the load will meet it too
                    await api.pause(self._settings.inference_load_timeout_s)
                await asyncio.wait({holding}, timeout=_PAUSE_AGAIN_S)
            await holding
        finally:
            holding.cancel()

    async def _swap(
        self, replica: EngineChild, served: Checkpoint | None, checkpoint: Checkpoint, sync: Sync
    ) -> None:
        """Replace `served` with `checkpoint`; on failure restore `served`, or serve nothing."""
        self.is_loading = True
        try:
            try:
                with direct.telling(checkpoint):
                    await replica.replace(checkpoint, sync)
                self._serve(replica)
            except (WeightsRefused, InternalFault, EngineFault, InvalidInput):
                await self._put_back(replica, served)
                raise
            except (Unreachable, TimedOut) as error:
                _log.warning("the engine was lost while it loaded: %s", error)
                await self._start_either(checkpoint, served, sync)
        finally:
            self.is_loading = False
            if self._served is not None:
                with sync.phase("resume"):
                    await self._gate.open()

    async def _put_back(self, replica: EngineChild, served: Checkpoint | None) -> None:
        """Serve the old weights again, in the same process if possible; nothing if lost."""
        if served is None or served.direct is not None:
            self._served = None
            _log.error("nothing is served: %s", direct.why_gone(served))
            return await self._gate.shut(f"no weights are loaded: {direct.why_gone(served)}")
        try:
            await replica.replace(served, Sync())
        except InfrastructureError as error:
            _log.warning("the old weights do not come back (%s): starting again", error)
            await self._start_or_lose(served)

    async def _start_either(self, new: Checkpoint, old: Checkpoint | None, sync: Sync) -> None:
        if new.direct is not None:
            await self._start_or_lose(old)
            raise NotReady(
                f"{self._kind.name} was lost while weights came directly from the trainer",
                retry_after_s=_RETRY_AFTER_S,
            )
        try:
            await self._start(new, sync)
        except InfrastructureError as error:
            await self._start_or_lose(old)
            if isinstance(error, WeightsRefused):
                raise
            raise NotReady(
                f"{self._kind.name} was lost while it loaded, and with the new weights it does not "
                f"start: {error.message}",
                retry_after_s=_RETRY_AFTER_S,
            ) from error

    async def _start_or_lose(self, served: Checkpoint | None) -> None:
        if served is None or served.direct is not None:
            return await self._lose(direct.why_gone(served))
        try:
            await self._start(served, Sync())
        except InfrastructureError as error:
            await self._lose(f"version {served.policy.version} does not come back: {error.message}")

    async def _start(self, checkpoint: Checkpoint, sync: Sync) -> None:
        """Start a new child in place of the old; without a child if this fails."""
        await self._drop_replica()
        replica = self._kind(self._settings, checkpoint)
        try:
            await replica.wait_ready(sync)
        except BaseException:
            await replica.kill()
            raise
        self._replica, self.receiver = replica, replica.receiver
        self._serve(replica)

    def _serve(self, replica: EngineChild) -> None:
        self._served = replica.checkpoint
        if self._served.direct is None:
            self._base = self._served

    async def _drop_replica(self) -> None:
        replica, self._replica = self._replica, None
        if replica is not None:
            await replica.kill()

    async def _lose(self, reason: str) -> None:
        _log.error("nothing is served: %s", reason)
        await self._drop_replica()
        self._served = None
        await self._gate.shut(f"no weights are loaded: {reason}")

    # Supervision

    async def _watch(self) -> None:
        """End a hanging child, and replace a lost child."""
        settings = self._settings
        budget = RestartBudget(settings.inference_max_restarts, settings.inference_restart_window_s)
        looked_at = 0.0
        while True:
            await asyncio.sleep(_WATCH_S)
            replica = self._replica
            if replica is None or self.is_loading:
                continue
            if replica.process.is_running():
                if time.monotonic() - looked_at < settings.inference_health_interval_s:
                    continue
                # Side by side: a child that hangs is known after one time-out.
                is_alive, _ = await asyncio.gather(replica.is_alive(), self._read_metrics(replica))
                looked_at = time.monotonic()
                if is_alive:
                    continue
            if self._replica is replica and not self.is_loading:
                await self._recover(replica, budget)

    async def _read_metrics(self, replica: EngineChild) -> None:
        with contextlib.suppress(Unreachable, TimedOut):  # its health check reports the loss
            timeout_s = self._settings.inference_health_timeout_s
            text = await replica.api.metrics_text(timeout_s)
            families, prefix = text_string_to_metric_families(text), self._kind.metrics_prefix
            self._metrics = [family for family in families if family.name.startswith(prefix)]

    async def _recover(self, lost: EngineChild, budget: RestartBudget) -> None:
        """End the child, so requests in flight fail, and serve its version with another child.

        A load waiting for sequences in flight continues then, and starts the child itself.
        """
        _log.warning("%s is lost: %s", self._kind.name, lost.process.last_words())
        lost.process.kill()
        if self._changing.locked():
            return
        async with self._changing:
            served = self._served
            if self._replica is not lost:
                return
            if served is None or served.direct is not None:
                return await self._lose(direct.why_gone(served))
            await self._gate.shut(self._starting)
            while (wait_s := budget.next_wait_s()) is not None:
                await asyncio.sleep(wait_s)
                try:
                    await self._start(served, Sync())
                except InfrastructureError as error:
                    _log.warning("%s does not start: %s", self._kind.name, error)
                else:
                    return await self._gate.open()
            await self._lose(f"{self._kind.name} failed again and again")
