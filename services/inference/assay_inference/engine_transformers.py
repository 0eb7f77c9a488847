"""The transformers engine: any causal model of full attention, on CPU or one GPU.

One thread owns the model. Between two steps it takes in what waits: requests join the running
batch; a load waits until the batch has run empty, and holds back requests that came after it, or
it goes first, and the batch is drawn anew or read anew under the new weights.
"""

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TypeVar

import torch
from prometheus_client import Metric

from assay_inference.engine import Loaded, OnText, Traffic, folder_of
from assay_inference.full_digest import digest_of_model
from assay_inference.held_form import HeldForm
from assay_inference.jobs import Generate, Load
from assay_inference.model import Model, best_device, open_model, probe_difference
from assay_inference.prompt_reading import Read, Readings
from assay_inference.running import Running
from assay_inference.settings import InferenceSettings
from assay_inference.vocabulary import Vocabulary
from assay_shared.errors import (
    AssayError,
    InternalFault,
    InvalidInput,
    NotReady,
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
    WeightUpdate,
)

_log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
_NO_WEIGHTS = "no weights are loaded yet"
#: Prompts and what followed them have many lengths: the mask of a prefill grows with its square.
_ROWS_READ_AGAIN = 16


class TransformersEngine:
    """Implements `assay_inference.engine.Engine`."""

    def __init__(self, settings: InferenceSettings) -> None:
        self.max_sequences = settings.inference_max_sequences
        self._device = torch.device(settings.inference_device or best_device())
        self._model: Model | None = None
        self._inbox: queue.Queue[Generate | Load | Read | None] = queue.Queue()
        self.num_running = 0
        self.num_tokens = 0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    # On the event loop.

    async def load(self, update: WeightUpdate) -> Loaded:
        return await self._submit(Load(update))

    @property
    def vocabulary(self) -> Vocabulary:
        return self._served().vocabulary

    def not_ready_because(self) -> str | None:
        return _NO_WEIGHTS if self._model is None else None

    @property
    def holds_weights(self) -> bool:
        return self._model is not None

    @property
    def replicas(self) -> Mapping[str, ReplicaStatus]:
        return {}

    def traffic(self) -> Traffic:
        return Traffic(self.num_running, self.num_tokens)

    def own_metrics(self) -> Iterable[Metric]:
        return ()

    @property
    def receiver(self) -> WeightReceiver | None:
        return None

    async def digest(self) -> WeightDigest:
        return await asyncio.to_thread(digest_of_model, self._served())

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None = None
    ) -> list[Completion]:
        vocabulary, form = self.vocabulary, None
        vocabulary.check_fits(prompt_token_ids, sampling)
        if sampling.structure is not None:
            form = await asyncio.to_thread(HeldForm.compile, sampling.structure, vocabulary)
        return await self._submit(Generate(prompt_token_ids, sampling, on_text, form))

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        return await self._submit(Read(token_ids, num_top))

    async def close(self) -> None:
        self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _submit(self, job: Generate | Load | Read) -> Answer:
        if not self._thread.is_alive():
            raise NotReady("the engine has stopped")
        self._inbox.put(job)
        return await job.outcome  # type: ignore[return-value]  # a job's own answer type

    def _served(self) -> Model:
        if self._model is None:
            raise NotReady(_NO_WEIGHTS, retry_after_s=1.0)
        return self._model

    # On the engine's thread.

    def _run(self) -> None:
        waiting: deque[Generate | Load] = deque()
        running, readings = Running(self.max_sequences), Readings()
        while self._receive(
            waiting, readings, block=not waiting and not running.rows and not readings
        ):
            try:
                with torch.inference_mode():
                    if readings:
                        readings.step(self._model)
                    self._take_in(waiting, running)
                    if running.rows:
                        self.num_tokens += running.step()
                    self.num_running = len(running.rows)
            except Exception as error:  # noqa: BLE001  # a boundary: the requests learn of it
                _log.exception("a step failed")
                running.fail(InternalFault(f"the engine failed: {error}"))
        for job in (*waiting, *running.requests()):
            job.fail(NotReady("the engine is stopping"))
        readings.close(NotReady("the engine is stopping"))

    def _receive(self, waiting: deque[Generate | Load], readings: Readings, *, block: bool) -> bool:
        """Move what has come to `waiting`; false when it is time to end."""
        while block or not self._inbox.empty():
            job = self._inbox.get()
            if job is None:
                return False
            if isinstance(job, Read):
                readings.add(job)
            else:
                waiting.append(job)
            block = False
        return True

    def _take_in(self, waiting: deque[Generate | Load], running: Running) -> None:
        """Start what can start, in order of arrival; weights that do not wait go first."""
        for load in [job for job in waiting if isinstance(job, Load)]:
            if load.update.mode is not SyncMode.WAIT:
                waiting.remove(load)
                self._take_over(load, waiting, running)
        joining: list[Generate] = []
        room = running.room
        while waiting:
            job = waiting[0]
            busy = bool(running.rows or joining)
            if isinstance(job, Load):
                if busy:
                    break
                self._replace(job)
            else:
                # A request larger than the whole batch runs by itself rather than never.
                if busy and len(job.samples) > room:
                    break
                joining.append(job)
                room -= len(job.samples)
            waiting.popleft()
        if joining:
            try:
                rows = [row for request in joining for row in request.samples]
                running.join(self._served(), rows)
            except Exception:
                for request in joining:
                    request.fail(InternalFault("the engine failed on a prompt"))
                raise

    def _take_over(self, job: Load, waiting: deque[Generate | Load], running: Running) -> None:
        """Replace the weights under the running rows; if they are refused, those go on."""
        requests = running.requests()
        if not self._replace(job):
            return
        rows = running.leave_unfinished()
        if job.update.mode is SyncMode.RESTART:
            for request in reversed(requests):
                try:
                    request.redraw()
                except NotReady as error:
                    request.fail(error)
                else:
                    waiting.appendleft(request)
            return
        try:
            for start in range(0, len(rows), _ROWS_READ_AGAIN):
                running.join(self._served(), rows[start : start + _ROWS_READ_AGAIN])
        except Exception:
            for request in requests:
                request.fail(InternalFault("the engine failed to go on under new weights"))
            raise

    def _replace(self, job: Load) -> bool:
        """Whether the new weights are in place."""
        started = time.perf_counter()
        update = job.update
        if isinstance(update.source, DirectWeights):
            job.fail(
                InvalidInput(
                    "the transformers engine takes weights from a folder", field="source.kind"
                )
            )
            return False
        folder = folder_of(update)
        try:
            model = open_model(folder, update.policy, self._device)
            if update.mode is not SyncMode.WAIT:
                _check_same_kind(self._model, model)
            difference = None if update.probe is None else probe_difference(model, update.probe)
        except AssayError as error:
            job.fail(error)
            return False
        except Exception as error:  # noqa: BLE001  # a bad file breaks the loaders in any way
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            job.fail(WeightsRefused(f"{folder} cannot be loaded: {reason}"))
            return False
        self._model = model
        job.succeed(Loaded(difference, time.perf_counter() - started))
        return True


def _check_same_kind(served: Model | None, new: Model) -> None:
    """What runs was made for the served vocabulary and context.

    Raises:
        WeightsRefused: the new ones differ.
    """
    if served is None:
        return
    before, after = served.vocabulary, new.vocabulary
    if (before.size, before.max_length) != (after.size, after.max_length):
        raise WeightsRefused(
            f"a vocabulary of {after.size} and a context of {after.max_length} do not go on from "
            f"{before.size} and {before.max_length}",
            hint="only the mode `wait` takes another model",
        )
