"""Decoding: rows in the running batch, from the step they join to the step they leave."""

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
    """The running rows, all under the same model. Used only by the engine's thread."""

    def __init__(self, on_finished: OnFinished) -> None:
        self.rows: list[JobRow] = []
        self._on_finished = on_finished
        self._model: LoadedModel | None = None
        self._batch: KVCache | None = None
        self._logits_BV = torch.empty(0)

    @property
    def num_tokens(self) -> int:
        """Return the most tokens the longest row can have, padding included."""
        if self._batch is None:
            return 0
        return self._batch.num_columns + max((row.num_left for row in self.rows), default=0)

    def requests(self) -> list[Generate]:
        """Return the requests with rows here, in the order they joined."""
        return list({id(row.request): row.request for row in self.rows}.values())

    def leave_unfinished(self) -> list[JobRow]:
        """Remove all rows unfinished, to be read again."""
        rows, self.rows, self._batch = self.rows, [], None
        self._logits_BV = torch.empty(0)
        return rows

    def join(self, model: LoadedModel, reading: Reading, rows: Sequence[Sequence[JobRow]]) -> None:
        """Add rows to the batch: `rows[i]` after prompt i of the reading."""
        if self._batch is None:
            self._model, self._batch = model, KVCache(model.network)
        self.rows += [row for same in rows for row in same]
        logits_BV = self._batch.join(reading, [len(same) for same in rows])
        is_first = len(self.rows) == len(logits_BV)
        self._logits_BV = logits_BV if is_first else torch.cat([self._logits_BV, logits_BV])

    def step(self) -> int:
        """Sample a token for each row and remove ended rows; return the number of tokens.

        A request fails alone if its rules cannot be applied, its logits are not a distribution, or
        its text cannot be decoded.
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
        """Return the logits to sample from; float32 if any row has rules."""
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
        """Remove abandoned and failed rows; return the logits of the others."""
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
    """Let an error of a row fail only its own request.

    A lack of memory concerns all rows: it is raised.
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
    """Return True as `_ended`; a row with an undecodable text ends only its own request."""
    with _failing_alone(row, "a sample's text"):
        if not row.request.is_over:
            return _ended(row, model)
    row.finish_reason = FinishReason.STOP
    return True


def _context(row: JobRow, model: LoadedModel) -> Context:
    """Return the context of a row's rules.

    Raises:
        InvalidInput: its form cannot continue.
    """
    sampling = row.request.sampling
    allowed_V = None if row.form is None else row.form.allowed()
    ends = sampling.ends(model.vocabulary.end_ids)
    return Context(sampling, row.request.prompt, row.token_ids, ends, allowed_V)


def _ended(row: JobRow, model: LoadedModel) -> bool:
    """Return True if the row's newest token was its last; update its text."""
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
    """Update the text and stream its certain part; return True at a stop string."""
    request = row.request
    on_text = request.on_text
    send = None if on_text is None else partial(request.call, on_text, row.index)
    return row.transcript.update(model.vocabulary, row.token_ids, send, final=final)
