"""Decoding: the rows that run together, from the step they join to the step they leave."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import torch

from assay_inference.batch import Batch, Reading
from assay_inference.jobs import Generate, Row
from assay_inference.logit_rules import Context, apply_rules, most_probable
from assay_inference.model import Model
from assay_inference.prefix_cache import Columns
from assay_inference.sampling import draw, is_finite
from assay_shared.errors import EngineFault, InvalidInput
from assay_shared.types import FinishReason

_log = logging.getLogger(__name__)
#: Called with a finished row and a way to its columns, which hold all but its last token.
OnFinished = Callable[[Row, Callable[[], Columns]], None]


class Running:
    """The running rows, all under one model. Used by the engine's thread alone."""

    def __init__(self, on_finished: OnFinished) -> None:
        self.rows: list[Row] = []
        self._on_finished = on_finished
        self._model: Model | None = None
        self._batch: Batch | None = None
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

    def leave_unfinished(self) -> list[Row]:
        """Take out all rows as they are, so that they can be read again."""
        rows, self.rows, self._batch = self.rows, [], None
        self._logits_BV = torch.empty(0)
        return rows

    def join(self, model: Model, reading: Reading, rows: Sequence[Sequence[Row]]) -> None:
        """Let rows run with the others: `rows[i]` after prompt i of what was read."""
        if self._batch is None:
            self._model, self._batch = model, Batch(model.network)
        self.rows += [row for same in rows for row in same]
        logits_BV = self._batch.join(reading, [len(same) for same in rows])
        is_first = len(self.rows) == len(logits_BV)
        self._logits_BV = logits_BV if is_first else torch.cat([self._logits_BV, logits_BV])

    def step(self) -> int:
        """Draw one token for each row, let those that end leave; the number drawn.

        A request whose logits are no distribution fails, and the others go on.
        """
        assert self._model is not None
        self._leave_broken(self._model)
        if self._batch is None:
            return 0
        ids_B = self._draw()
        num_drawn = len(self.rows)
        staying = [i for i, row in enumerate(self.rows) if not _leaves(row, self._model)]
        if len(staying) < num_drawn:
            self._finish(staying)
            ids_B = ids_B[staying]
        if self._batch is not None:
            self._logits_BV = self._batch.step(ids_B)
        return num_drawn

    def _draw(self) -> torch.Tensor:
        assert self._model is not None
        policy = self._model.policy
        # In double precision, no temperature or share above 0 becomes 0, and no draw becomes 1.
        of_rows = partial(torch.tensor, device=self._logits_BV.device, dtype=torch.float64)
        sampling = [row.request.sampling for row in self.rows]
        logits_BV = apply_rules(self._logits_BV, [_context(row, self._model) for row in self.rows])
        ids_B, logprobs_B = draw(
            logits_BV,
            of_rows([s.temperature for s in sampling]),
            of_rows([s.top_p for s in sampling]),
            of_rows([row.uniform() for row in self.rows]),
            torch.tensor([s.top_k for s in sampling], device=logits_BV.device),
            of_rows([s.min_p for s in sampling]),
        )
        tops = [
            most_probable(logits_V, s.temperature, s.top_logprobs) if s.top_logprobs else None
            for logits_V, s in zip(logits_BV, sampling, strict=True)
        ]
        drawn = zip(self.rows, ids_B.tolist(), logprobs_B.tolist(), tops, strict=True)
        for row, token_id, logprob, top in drawn:
            row.add(token_id, logprob, policy)
            if top is not None:
                row.top_logprobs.append(top)
        return ids_B

    def _leave_broken(self, model: Model) -> None:
        finite = is_finite(self._logits_BV)
        if all(finite):
            return
        broken = {id(row.request) for row, fine in zip(self.rows, finite, strict=True) if not fine}
        for request in self.requests():
            if id(request) in broken:
                request.fail(
                    EngineFault(
                        f"version {model.policy.version} gives logits that are not finite",
                        hint="its weights, or the type that they are computed in, overflow",
                    )
                )
        staying = [i for i, row in enumerate(self.rows) if id(row.request) not in broken]
        self._keep(staying)
        if staying:
            self._logits_BV = self._logits_BV[staying]

    def _finish(self, staying: list[int]) -> None:
        assert self._batch is not None
        left = [(i, row) for i, row in enumerate(self.rows) if row.finish_reason is not None]
        for index, row in left:
            if not row.request.is_over:
                self._on_finished(row, partial(self._batch.columns, index))
        self._keep(staying)
        for request in {id(row.request): row.request for _, row in left}.values():
            if request.is_finished:
                request.succeed([row.completion() for row in request.samples])

    def _keep(self, staying: list[int]) -> None:
        assert self._batch is not None
        self.rows = [self.rows[i] for i in staying]
        if self.rows:
            self._batch.keep(staying)
        else:
            self._batch = None


def _leaves(row: Row, model: Model) -> bool:
    """As `_ended`; a row whose text cannot be told takes its own request with it alone."""
    try:
        return _ended(row, model)
    except Exception as error:  # noqa: BLE001  # a boundary: the request learns of it
        _log.exception("a text could not be told")
        row.request.fail(EngineFault(f"the engine failed on a sample's text: {error}"))
        row.finish_reason = FinishReason.STOP
        return True


def _context(row: Row, model: Model) -> Context:
    """What the rules of a row depend on; a request whose form cannot go on fails by itself."""
    sampling, allowed_V = row.request.sampling, None
    if row.form is not None and row.finish_reason is None:
        try:
            allowed_V = row.form.allowed()
        except InvalidInput as error:
            row.request.fail(error)
            for sample in row.request.samples:
                sample.finish_reason = FinishReason.STOP
    ends = sampling.ends(model.vocabulary.end_ids)
    return Context(sampling, row.request.prompt, row.token_ids, ends, allowed_V)


def _ended(row: Row, model: Model) -> bool:
    """Whether the row's newest token was its last; its text is brought up to date."""
    if row.finish_reason is not None:  # its request has failed
        return True
    sampling = row.request.sampling
    at_end = row.form_is_complete or row.token_ids[-1] in sampling.ends(model.vocabulary.end_ids)
    full = len(row.token_ids) >= sampling.max_tokens or row.request.is_over
    stopped = False
    if at_end or full or sampling.stop or row.request.on_text is not None:
        stopped = _update_text(row, model, final=at_end or full)
    if at_end or stopped:
        row.finish_reason = FinishReason.STOP
    elif full:
        row.finish_reason = FinishReason.LENGTH
    return row.finish_reason is not None


def _update_text(row: Row, model: Model, *, final: bool) -> bool:
    """Bring the text up to date and send on what is sure; true if a stop string ends it."""
    request = row.request
    on_text = request.on_text
    send = None if on_text is None else partial(request.call, on_text, row.index)
    return row.transcript.update(model.vocabulary, row.token_ids, send, final=final)
