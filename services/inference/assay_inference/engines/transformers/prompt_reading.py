"""Log-probabilities of prompts, read a chunk at a time between two steps of the batch.

Shapes: T tokens of a chunk, V vocabulary.
"""

import logging
from collections import deque

import torch
from transformers import DynamicCache

from assay_inference.engines.transformers.jobs import Job
from assay_inference.engines.transformers.logit_rules import most_probable
from assay_inference.engines.transformers.model import LoadedModel
from assay_shared.errors import InternalFault, NotReady
from assay_shared.types import PromptLogprobs, TopLogprobs

_log = logging.getLogger(__name__)
#: Tokens read between two steps: logits of a large vocabulary are half a megabyte each.
_CHUNK = 64
#: New weights restart a reading at most this number of times.
_MAX_STARTS = 16


class Read(Job[PromptLogprobs]):
    """Read token ids."""

    def __init__(self, token_ids: list[int], num_top: int) -> None:
        super().__init__()
        self.token_ids = token_ids
        self.num_top = num_top
        self.num_starts = 0


class Readings:
    """The prompts to read, in order. Used only by the engine's thread."""

    def __init__(self) -> None:
        self._waiting: deque[Read] = deque()
        self._current: _Reading | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, job: Read) -> None:
        self._waiting.append(job)

    def step(self, model: LoadedModel | None) -> None:
        """Read a chunk under `model`; chunks read under another model are read again."""
        job = self._waiting[0]
        try:
            if job.outcome.cancelled() or self._go_on(job, model):
                self._drop_first()
        except NotReady as error:
            job.fail(error)
            self._drop_first()
        except Exception as error:  # noqa: BLE001  # a boundary: others' requests continue
            _log.exception("a prompt cannot be read")
            job.fail(InternalFault(f"the engine failed on a prompt: {error}"))
            self._drop_first()

    def give_up(self) -> None:
        """Forget all waiting prompts; their requests have their answers."""
        self._waiting.clear()
        self._current = None

    def _go_on(self, job: Read, model: LoadedModel | None) -> bool:
        """Continue with a job; return True if it is finished."""
        if model is None:
            raise NotReady("no weights are loaded yet", retry_after_s=1.0)
        if self._current is None or self._current.model is not model:
            job.num_starts += 1
            if job.num_starts > _MAX_STARTS:
                raise NotReady("new weights came too often for this to be read", retry_after_s=1.0)
            self._current = _Reading(job, model)
        if not self._current.read_chunk():
            return False
        job.succeed(self._current.answer())
        return True

    def _drop_first(self) -> None:
        self._waiting.popleft()
        self._current = None


class _Reading:
    """A prompt, partly read under a model."""

    def __init__(self, job: Read, model: LoadedModel) -> None:
        self.model = model
        self._job = job
        self._cache = DynamicCache(config=model.network.config)
        self._num_read = 0
        self._logprobs: list[float | None] = [None]
        self._top: list[TopLogprobs] = [()]

    def read_chunk(self) -> bool:
        """Read a chunk; return True once all of the prompt is read."""
        ids, start = self._job.token_ids, self._num_read
        chunk = torch.tensor([ids[start : start + _CHUNK]], device=self.model.network.device)
        out = self.model.network(input_ids=chunk, past_key_values=self._cache, use_cache=True)
        self._num_read += chunk.shape[1]
        after = ids[start + 1 : self._num_read + 1]
        logits_TV = out.logits[0, : len(after)].float()
        after_T1 = torch.tensor(after, dtype=torch.long, device=logits_TV.device)[:, None]
        self._logprobs += logits_TV.log_softmax(dim=-1).gather(1, after_T1)[:, 0].tolist()
        if self._job.num_top:
            self._top += [most_probable(row_V, 1.0, self._job.num_top) for row_V in logits_TV]
        return self._num_read >= len(ids)

    def answer(self) -> PromptLogprobs:
        return PromptLogprobs(
            token_ids=tuple(self._job.token_ids),
            logprobs=tuple(self._logprobs),
            top_logprobs=tuple(self._top) if self._job.num_top else (),
            policy=self.model.policy,
        )
