"""Decoding: the rows that run together, from the step they join to the step they leave."""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch

from assay_inference.engines.transformers.jobs import Generate, JobRow
from assay_inference.engines.transformers.kv_cache import KVCache, Reading
from assay_inference.engines.transformers.logit_rules import (
    Context,
    apply_rules,
    has_rules,
    most_probable,
)
from assay_inference.engines.transformers.memory import is_out_of_memory
from assay_inference.engines.transformers.model import LoadedModel
from assay_inference.engines.transformers.prefix_cache import Columns
from assay_inference.engines.transformers.sampling import draw, is_finite
from assay_shared.errors import AssayError, EngineFault, NotFinite
from assay_shared.types import FinishReason, PolicyVersion

_log = logging.getLogger(__name__)
#: Called with a finished row and a way to its columns, which hold all but its last token.
OnFinished = Callable[[JobRow, Callable[[], Columns]], None]


class Decoder:
    """The running rows, all under one model. Used by the engine's thread alone."""

    def __init__(self, on_finished: OnFinished) -> None:
        self.rows: list[JobRow] = []
        self._on_finished = on_finished
        self._model: LoadedModel | None = None
        self._batch: KVCache | None = None
        self._logits_BV = torch.empty(0)

    @property
    def num_tokens(self) -> int:
        """Tokens that the longest row may come to, padding included."""
        if self._batch is None:
            return 0
        return self._batch.num_columns + max((row.num_left for row in self.rows), default=0)

    def requests(self) -> list[Generate]:
        """Those that have rows here, in the order in which they joined."""
        return list({id(row.request): row.request for row in self.rows}.values())

    def leave_unfinished(self) -> list[JobRow]:
        """Take out all rows as they are, so that they can be read again."""
        rows, self.rows, self._batch = self.rows, [], None
        self._logits_BV = torch.empty(0)
        return rows

    def join(self, model: LoadedModel, reading: Reading, rows: Sequence[Sequence[JobRow]]) -> None:
        """Let rows run with the others: `rows[i]` after prompt i of what was read."""
        if self._batch is None:
            self._model, self._batch = model, KVCache(model.network)
        self.rows += [row for same in rows for row in same]
        logits_BV = self._batch.join(reading, [len(same) for same in rows])
        is_first = len(self.rows) == len(logits_BV)
        self._logits_BV = logits_BV if is_first else torch.cat([self._logits_BV, logits_BV])

    def step(self) -> int:
        """Draw one token for each row, let those that end leave; the number drawn.

        A request that fails by itself leaves alone: its rules cannot be applied, its logits are no
        distribution, or its text cannot be decoded.
        """
        assert self._model is not None
        logits_BV = self._leave_failed(self._ruled(self._model))
        if self._batch is None:
            return 0
        ids_B = self._draw(logits_BV, self._model.policy)
        num_drawn = len(self.rows)
        staying = [i for i, row in enumerate(self.rows) if not _leaves(row, self._model)]
        if len(staying) < num_drawn:
            self._finish(staying)
            ids_B = ids_B[staying]
        if self._batch is not None:
            self._logits_BV = self._batch.step(ids_B)
        return num_drawn

    def _ruled(self, model: LoadedModel) -> torch.Tensor:
        """Return the logits that tokens are drawn from; float32 where any row has rules."""
        logits_BV = self._logits_BV
        ruled = [i for i, row in enumerate(self.rows) if has_rules(row.request.sampling)]
        if ruled:
            logits_BV = logits_BV.float().clone()
        for index in ruled:
            with _failing_alone(self.rows[index], "a sample's rules"):
                context = _context(self.rows[index], model)
                logits_BV[index] = apply_rules(logits_BV[index], context)
        self._fail_not_finite(logits_BV, model.policy)
        return logits_BV

    def _fail_not_finite(self, logits_BV: torch.Tensor, policy: PolicyVersion) -> None:
        finite = is_finite(logits_BV)
        if all(finite):
            return
        by_model = is_finite(self._logits_BV)
        for row, is_fine, was_fine in zip(self.rows, finite, by_model, strict=True):
            if not is_fine and not row.request.is_over:
                row.request.fail(_not_finite(policy, by_rules=was_fine))

    def _leave_failed(self, logits_BV: torch.Tensor) -> torch.Tensor:
        """Take out the rows that nobody waits for any more; the logits of the others."""
        staying = [i for i, row in enumerate(self.rows) if not row.request.is_over]
        if len(staying) == len(self.rows):
            return logits_BV
        self._keep(staying)
        self._logits_BV = self._logits_BV[staying]
        return logits_BV[staying]

    def _draw(self, logits_BV: torch.Tensor, policy: PolicyVersion) -> torch.Tensor:
        # In double precision, no temperature or share above 0 becomes 0, and no draw becomes 1.
        of_rows = partial(torch.tensor, device=logits_BV.device, dtype=torch.float64)
        sampling = [row.request.sampling for row in self.rows]
        ids_B, logprobs_B = draw(
            logits_BV,
            of_rows([s.temperature for s in sampling]),
            of_rows([s.top_p for s in sampling]),
            of_rows([row.uniform() for row in self.rows]),
            torch.tensor([s.top_k for s in sampling], device=logits_BV.device),
            of_rows([s.min_p for s in sampling]),
        )
        drawn = zip(self.rows, ids_B.tolist(), logprobs_B.tolist(), logits_BV, strict=True)
        for row, token_id, logprob, logits_V in drawn:
            with _failing_alone(row, "a sample's token"):
                _take_in(row, token_id, logprob, logits_V, policy)
        return ids_B

    def _finish(self, staying: list[int]) -> None:
        assert self._batch is not None
        left = [(i, row) for i, row in enumerate(self.rows) if row.finish_reason is not None]
        for index, row in left:
            if not row.request.is_over:
                self._on_finished(row, partial(self._batch.columns, index))
        self._keep(staying)
        for request in {id(row.request): row.request for _, row in left}.values():
            if request.is_finished:
                request.finish()

    def _keep(self, staying: list[int]) -> None:
        assert self._batch is not None
        self.rows = [self.rows[i] for i in staying]
        if self.rows:
            self._batch.keep(staying)
        else:
            self._batch = None


@contextmanager
def _failing_alone(row: JobRow, what: str) -> Iterator[None]:
    """Let what goes wrong with a row fail its own request, and no other one.

    A lack of memory is everybody's: it is raised.
    """
    try:
        yield
    except AssayError as error:
        row.request.fail(error)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        _log.exception("%s failed", what)
        row.request.fail(EngineFault(f"the engine failed on {what}: {error!s:.300}"))


def _take_in(
    row: JobRow, token_id: int, logprob: float, logits_V: torch.Tensor, policy: PolicyVersion
) -> None:
    if not math.isfinite(logprob):
        raise _not_finite(policy, by_rules=False)
    sampling = row.request.sampling
    row.add(token_id, logprob, policy)
    if sampling.top_logprobs:
        top = most_probable(logits_V, sampling.temperature, sampling.top_logprobs)
        row.top_logprobs.append(top)


def _not_finite(policy: PolicyVersion, *, by_rules: bool) -> NotFinite:
    if by_rules:
        return NotFinite(
            "the logits are not finite once the request's options are applied",
            hint="logit_bias and the penalties, or a form that allows no token",
        )
    return NotFinite(
        f"version {policy.version} gives logits that are not finite",
        hint="its weights, or the type that they are computed in, overflow",
    )


def _leaves(row: JobRow, model: LoadedModel) -> bool:
    """As `_ended`; a row whose text cannot be decoded takes its own request with it alone."""
    with _failing_alone(row, "a sample's text"):
        if not row.request.is_over:
            return _ended(row, model)
    row.finish_reason = FinishReason.STOP
    return True


def _context(row: JobRow, model: LoadedModel) -> Context:
    """What the rules of a row depend on. Raises InvalidInput where its form cannot go on."""
    sampling = row.request.sampling
    allowed_V = None if row.form is None else row.form.allowed()
    ends = sampling.ends(model.vocabulary.end_ids)
    return Context(sampling, row.request.prompt, row.token_ids, ends, allowed_V)


def _ended(row: JobRow, model: LoadedModel) -> bool:
    """Whether the row's newest token was its last; its text is brought up to date."""
    sampling = row.request.sampling
    at_end = row.form_is_complete or row.token_ids[-1] in sampling.ends(model.vocabulary.end_ids)
    full = len(row.token_ids) >= sampling.max_tokens
    stopped = False
    if at_end or full or sampling.stop or row.request.on_text is not None:
        stopped = _update_text(row, model, final=at_end or full)
    if at_end or stopped:
        row.finish_reason = FinishReason.STOP
    elif full:
        row.finish_reason = FinishReason.LENGTH
    return row.finish_reason is not None


def _update_text(row: JobRow, model: LoadedModel, *, final: bool) -> bool:
    """Bring the text up to date and send on what is sure; true if a stop string ends it."""
    request = row.request
    on_text = request.on_text
    send = None if on_text is None else partial(request.call, on_text, row.index)
    return row.transcript.update(model.vocabulary, row.token_ids, send, final=final)
