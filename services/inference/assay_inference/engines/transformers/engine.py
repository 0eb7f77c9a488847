"""The transformers engine: any causal model of full attention, on CPU or a single GPU.

A thread owns the model. Between two steps it takes waiting work: requests join the running batch
as far as the cache has room (`schedule`); a load waits for the batch to run empty and holds back
later requests, or it goes first, and the batch is sampled or read again under the new weights.
"""

import asyncio
import gc
import logging
import queue
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TypeVar

import torch
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from assay_inference.engines.engine import Loaded, OnText, ResolvedUpdate, Traffic, folder_of
from assay_inference.engines.transformers.digest import digest_of_model
from assay_inference.engines.transformers.held_form import HeldForm
from assay_inference.engines.transformers.jobs import Generate, Load
from assay_inference.engines.transformers.memory import (
    Room,
    cost_of,
    default_cache_bytes,
    is_out_of_memory,
)
from assay_inference.engines.transformers.model import (
    LoadedModel,
    best_device,
    open_model,
    probe_difference,
)
from assay_inference.engines.transformers.prompt_reading import Read, Readings
from assay_inference.engines.transformers.schedule import Schedule
from assay_inference.settings import InferenceSettings
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.errors import AssayError, EngineFault, NotReady, WeightsRefused
from assay_shared.types import (
    Completion,
    PromptLogprobs,
    ReplicaStatus,
    SamplingParams,
    SyncMode,
    WeightDigest,
    WeightReceiver,
)

_log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
_NO_WEIGHTS = "no weights are loaded yet"
#: Time for the running step to end when the service stops.
_CLOSE_S = 3.0
#: Where memory runs out while weights are loaded, it is tried again after these.
_LOAD_WAITS_S = (1.0, 2.0, 4.0)


class TransformersEngine:
    """Implements `assay_inference.engines.engine.Engine`."""

    def __init__(self, settings: InferenceSettings) -> None:
        self.max_sequences = settings.inference_max_sequences
        self._device = torch.device(settings.inference_device or best_device())
        self._cache_bytes = settings.inference_cache_bytes
        self._model: LoadedModel | None = None
        self._room: Room | None = None
        self._schedule = Schedule()
        self._readings = Readings()
        #: What was taken in and has no answer yet. Used by the engine's thread alone.
        self._unanswered: set[Generate | Load | Read] = set()
        self._is_closed = False
        self._inbox: queue.Queue[Generate | Load | Read | None] = queue.Queue()
        self.num_running = 0
        self.num_tokens = 0
        self._cache_use: float | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    # On the event loop.

    async def load(self, update: ResolvedUpdate) -> Loaded:
        return await self._submit(Load(update))

    @property
    def vocabulary(self) -> PolicyTokenizer:
        return self._served().vocabulary

    def not_ready_because(self) -> str | None:
        return _NO_WEIGHTS if self._model is None else None

    @property
    def holds_weights(self) -> bool:
        return self._model is not None

    @property
    def replicas(self) -> Mapping[str, ReplicaStatus]:
        return {}

    @property
    def max_tokens(self) -> int | None:
        return None if self._room is None else self._room.max_tokens

    def traffic(self) -> Traffic:
        return Traffic(self.num_running, self.num_tokens, self._cache_use)

    def own_metrics(self) -> Iterable[Metric]:
        tokens = CounterMetricFamily(
            "assay_inference_prompt_tokens", "Tokens of prompts.", labels=["source"]
        )
        tokens.add_metric(["read"], self._schedule.num_read)
        tokens.add_metric(["cache"], self._schedule.num_known)
        yield tokens

    @property
    def receiver(self) -> WeightReceiver | None:
        return None

    async def digest(self) -> WeightDigest:
        return await asyncio.to_thread(digest_of_model, self._served())

    def check_fits(self, prompt_token_ids: list[int], sampling: SamplingParams) -> None:
        self.vocabulary.check_fits(prompt_token_ids, sampling)
        if self._room is not None:
            self._room.check_fits(len(prompt_token_ids), sampling)

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None = None
    ) -> list[Completion]:
        vocabulary, form = self.vocabulary, None
        self.check_fits(prompt_token_ids, sampling)
        if sampling.structure is not None:
            form = await asyncio.to_thread(HeldForm.compile, sampling.structure, vocabulary)
        return await self._submit(Generate(prompt_token_ids, sampling, on_text, form))

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        return await self._submit(Read(token_ids, num_top))

    async def close(self) -> None:
        self._is_closed = True
        self._inbox.put(None)
        # A load may take minutes: its thread ends with the process.
        await asyncio.to_thread(self._thread.join, _CLOSE_S)

    async def _submit(self, job: Generate | Load | Read) -> Answer:
        if self._is_closed or not self._thread.is_alive():
            raise NotReady("the engine has stopped")
        self._inbox.put(job)
        return await job.outcome  # type: ignore[return-value]  # a job's own answer type

    def _served(self) -> LoadedModel:
        if self._model is None:
            raise NotReady(_NO_WEIGHTS, retry_after_s=1.0)
        return self._model

    # On the engine's thread.

    def _run(self) -> None:
        schedule, readings = self._schedule, self._readings
        try:
            while self._receive(
                block=not schedule.waiting and not schedule.is_busy and not readings
            ):
                try:
                    self._turn()
                except Exception as error:  # noqa: BLE001  # a boundary: the requests learn of it
                    _log.exception("the engine failed")
                    reason = f"the engine failed: {type(error).__name__}: {error}"
                    self._fail_all(EngineFault(reason))
        finally:
            self._fail_all(NotReady("the engine is stopping"))

    def _turn(self) -> None:
        schedule, readings = self._schedule, self._readings
        with torch.inference_mode():
            if readings:
                readings.step(self._model)
            self._load_what_can(schedule)
            if schedule.waiting or schedule.is_busy:
                self.num_tokens += schedule.turn(self._served())
        self.num_running = len(schedule.running.rows)
        if schedule.room is not None:
            self._cache_use = schedule.num_reserved / max(1, schedule.room.max_bytes)

    def _fail_all(self, error: AssayError) -> None:
        """Fail all requests, and start with none in flight."""
        for job in self._unanswered:
            if job.is_awaited:
                job.fail(error)
        self._unanswered.clear()
        self._schedule.give_up()
        self._readings.give_up()
        self.num_running = 0

    def _receive(self, *, block: bool) -> bool:
        """Queue new work; return False when the thread must end."""
        while block or not self._inbox.empty():
            job = self._inbox.get()
            if job is None:
                return False
            self._unanswered = {one for one in self._unanswered if one.is_awaited} | {job}
            if isinstance(job, Read):
                self._readings.add(job)
            else:
                self._schedule.waiting.append(job)
            block = False
        return True

    def _load_what_can(self, schedule: Schedule) -> None:
        """Load weights without a wait, and weights with all earlier requests finished."""
        for load in [job for job in schedule.waiting if isinstance(job, Load)]:
            if load.update.mode is SyncMode.WAIT:
                continue
            schedule.waiting.remove(load)
            if self._replace(load, schedule):
                if load.update.mode is SyncMode.RESTART:
                    schedule.redraw()
                else:
                    schedule.put_back()
        while not schedule.is_busy and schedule.waiting:
            job = schedule.waiting[0]
            if not isinstance(job, Load):
                return
            schedule.waiting.popleft()
            self._replace(job, schedule)

    def _replace(self, job: Load, schedule: Schedule) -> bool:
        """Load the job's weights; return True if they are in place."""
        started = time.perf_counter()
        update = job.update
        try:
            model, difference, room = self._open(update, schedule)
        except AssayError as error:
            job.fail(error)
            return False
        except Exception as error:  # noqa: BLE001  # a bad file breaks the loaders in any way
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            job.fail(WeightsRefused(f"{folder_of(update)} cannot be loaded: {reason:.500}"))
            return False
        self._model, self._room = model, room
        schedule.use(room)
        job.succeed(Loaded(difference, time.perf_counter() - started))
        return True

    def _open(
        self, update: ResolvedUpdate, schedule: Schedule
    ) -> tuple[LoadedModel, float | None, Room]:
        """Load and check weights; try again several times if memory is short.

        Raises:
            EngineFault: memory was short each time.
        """
        for wait_s in (*_LOAD_WAITS_S, None):
            try:
                return self._open_once(update)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                message = f"out of memory while {folder_of(update)} was loaded: {error}"
                _log.warning("%s", message)
            if wait_s is None:
                raise EngineFault(message, retry_after_s=_LOAD_WAITS_S[-1])
            schedule.forget()
            gc.collect()
            time.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def _open_once(self, update: ResolvedUpdate) -> tuple[LoadedModel, float | None, Room]:
        model = open_model(folder_of(update), update.policy, self._device)
        if update.mode is not SyncMode.WAIT:
            _check_same_kind(self._model, model)
        difference = None if update.probe is None else probe_difference(model, update.probe)
        return model, difference, self._room_for(model)

    def _room_for(self, model: LoadedModel) -> Room:
        """Return the room for rows. Measured once: later, running rows would count as used."""
        cost = cost_of(model.network)
        if self._cache_bytes is None:
            self._cache_bytes = default_cache_bytes(model.network, self._device)
        room = Room(cost, self._cache_bytes, self.max_sequences)
        num_tokens = model.vocabulary.max_length
        if cost.of(1, num_tokens) > room.max_bytes:
            _log.warning(
                "%d bytes of cache hold %d tokens, less than the context of %d",
                room.max_bytes,
                room.max_tokens,
                num_tokens,
            )
        return room


def _check_same_kind(served: LoadedModel | None, new: LoadedModel) -> None:
    """Check the vocabulary and the context, because running rows depend on them.

    Raises:
        WeightsRefused: the new ones differ.
    """
    if served is None:
        return
    before, after = served.vocabulary, new.vocabulary
    if (before.size, before.max_length) != (after.size, after.max_length):
        raise WeightsRefused(
            f"a vocabulary of {after.size} and a context of {after.max_length} do not continue "
            f"{before.size} and {before.max_length}",
            hint="only the mode `wait` takes another model",
        )
