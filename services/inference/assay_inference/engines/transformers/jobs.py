"""Jobs from the event loop to the engine's thread, and their results."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from assay_inference.engines.engine import Loaded, OnText, ResolvedUpdate
from assay_inference.engines.sample import Restartable, Sample
from assay_inference.engines.transformers.held_form import HeldForm
from assay_shared.errors import EngineFault
from assay_shared.types import Completion, PolicyVersion, SamplingParams

_log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class Job(Generic[Answer]):
    """Made on the event loop, worked on by the thread; its outcome is set back on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[Answer] = self._loop.create_future()
        self._is_failed = False
        self._is_answered = False

    @property
    def is_awaited(self) -> bool:
        """Return True while a caller waits for it and the thread has not given it a result."""
        return not (self._is_answered or self.is_over)

    @property
    def is_over(self) -> bool:
        """Return True if nobody waits for it any more. Called by the thread."""
        return self._is_failed or self.outcome.cancelled()

    def call(self, action: Callable[..., object], *arguments: object) -> None:
        """Run `action` on the event loop; do nothing after the loop is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action, *arguments)

    def succeed(self, value: Answer) -> None:
        self._is_answered = True

        def set_back() -> None:
            if not self.outcome.done():
                self.outcome.set_result(value)

        self.call(set_back)

    def fail(self, error: Exception) -> None:
        self._is_failed = self._is_answered = True

        def set_back() -> None:
            if not self.outcome.done():
                self.outcome.set_exception(error)

        self.call(set_back)


class JobRow(Sample):
    """A sample in the running batch; `form` constrains it."""

    def __init__(self, request: "Generate", index: int, random: random.Random) -> None:
        super().__init__(request.sampling.stop, request.sampling.min_tokens)
        self.request = request
        self.form = None if request.form is None else request.form.copy()
        self.form_is_complete = False
        self.index = index
        self._random = random
        self._uniform: float | None = None

    def uniform(self) -> float:
        """Return the number in [0, 1) for the next token; constant until the token is added."""
        if self._uniform is None:
            self._uniform = self._random.random()
        return self._uniform

    @property
    def token_ids_to_read(self) -> list[int]:
        """Return the prompt, and the tokens sampled before the row left a batch."""
        return self.request.prompt + self.token_ids

    @property
    def num_left(self) -> int:
        """Return the number of tokens left to sample."""
        return self.request.sampling.max_tokens - len(self.token_ids)

    def add(self, token_id: int, logprob: float, policy: PolicyVersion) -> None:
        self._uniform = None
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        if self.form is not None:
            self.form_is_complete = self.form.take(token_id)
        self.spans.add(policy, 1)


class Generate(Job[list[Completion]], Restartable[JobRow]):
    """Sample `sampling.n` rows after a prompt."""

    def __init__(
        self,
        prompt: list[int],
        sampling: SamplingParams,
        on_text: OnText | None,
        form: HeldForm | None = None,
    ) -> None:
        super().__init__()
        self.form = form
        self.prompt = prompt
        self.sampling = sampling
        self.on_text = on_text
        self.samples = self._new_samples()
        #: Rows that are to be read, the next one first; the others run or are finished.
        self.pending: deque[JobRow] = deque(self.samples)
        #: True after a failure among others: its prompt is then read alone.
        self.reads_alone = False
        #: Steps that failed while it was the last to have joined.
        self.num_strikes = 0

    def finish(self) -> None:
        """Answer with all samples; an invalid completion fails only this request."""
        if self.is_over:
            return
        try:
            completions = [row.completion() for row in self.samples]
        except Exception as error:  # noqa: BLE001  # a boundary: the request learns of it
            _log.exception("a sample is not a completion")
            self.fail(EngineFault(f"a sample is not a completion: {error!s:.300}"))
        else:
            self.succeed(completions)

    def redraw(self) -> None:
        super().redraw()
        self.pending = deque(self.samples)

    def _new_samples(self) -> list[JobRow]:
        return [JobRow(self, i, self._random(i)) for i in range(self.sampling.n)]

    def _random(self, index: int) -> random.Random:
        seed = self.sampling.seed
        return random.Random() if seed is None else random.Random(f"{seed}/{index}")


class Load(Job[Loaded]):
    """Replace the weights."""

    def __init__(self, update: ResolvedUpdate) -> None:
        super().__init__()
        self.update = update
