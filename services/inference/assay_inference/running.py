"""Decoding: the rows that run together, from the step they join to the step they leave."""

from functools import partial
from itertools import groupby

import torch

from assay_inference.batch import Batch
from assay_inference.jobs import Generate, Row
from assay_inference.logit_rules import Context, apply_rules, most_probable
from assay_inference.model import Model
from assay_inference.sampling import draw
from assay_shared.errors import InvalidInput
from assay_shared.types import FinishReason


class Running:
    """The running rows, all under one model. Used by the engine's thread alone."""

    def __init__(self, max_sequences: int) -> None:
        self._max_sequences = max_sequences
        self.rows: list[Row] = []
        self._model: Model | None = None
        self._batch: Batch | None = None
        self._logits_BV = torch.empty(0)

    @property
    def room(self) -> int:
        return self._max_sequences - len(self.rows)

    def requests(self) -> list[Generate]:
        return list({id(row.request): row.request for row in self.rows}.values())

    def fail(self, error: Exception) -> None:
        """Give all rows up."""
        for request in self.requests():
            request.fail(error)
        self.rows, self._batch = [], None

    def leave_unfinished(self) -> list[Row]:
        """Take out all rows as they are, so that another model can go on with them."""
        rows, self.rows, self._batch = self.rows, [], None
        return rows

    def join(self, model: Model, rows: list[Row]) -> None:
        """Read the prompts of `rows`, and what they have drawn, and let them run with the others.

        Rows of one request that stand next to each other and are new share the prompt's reading.
        """
        starts = [
            (request.prompt + list(drawn), len(list(same)))
            for (request, drawn), same in groupby(rows, lambda r: (r.request, tuple(r.token_ids)))
        ]
        batch, logits_BV = Batch.prefill(
            model.network, [ids for ids, _ in starts], [copies for _, copies in starts]
        )
        if self._batch is None:
            self._model, self._batch, self._logits_BV = model, batch, logits_BV
        else:
            self._batch.join(batch)
            self._logits_BV = torch.cat([self._logits_BV, logits_BV])
        self.rows += rows

    def step(self) -> int:
        """Draw one token for each row, let those that end leave; the number drawn."""
        assert self._model is not None
        assert self._batch is not None
        ids_B = self._draw()
        num_drawn = len(self.rows)
        staying = [i for i, row in enumerate(self.rows) if not _ended(row, self._model)]
        if len(staying) < num_drawn:
            self._leave(staying)
            ids_B = ids_B[staying]
        if self._batch is not None:
            self._logits_BV = self._batch.step(ids_B)
        return num_drawn

    def _draw(self) -> torch.Tensor:
        assert self._model is not None
        policy = self._model.policy
        device = self._logits_BV.device
        sampling = [row.request.sampling for row in self.rows]
        uniform = [row.random.random() for row in self.rows]
        logits_BV = apply_rules(self._logits_BV, [_context(row, self._model) for row in self.rows])
        ids_B, logprobs_B = draw(
            logits_BV,
            torch.tensor([s.temperature for s in sampling], device=device),
            torch.tensor([s.top_p for s in sampling], device=device),
            torch.tensor(uniform, device=device, dtype=torch.float32),
            torch.tensor([s.top_k for s in sampling], device=device),
            torch.tensor([s.min_p for s in sampling], device=device),
        )
        for row, logits_V in zip(self.rows, logits_BV, strict=True):
            asked = row.request.sampling
            if asked.top_logprobs:
                top = most_probable(logits_V, asked.temperature, asked.top_logprobs)
                row.top_logprobs.append(top)
        for row, token_id, logprob in zip(
            self.rows, ids_B.tolist(), logprobs_B.tolist(), strict=True
        ):
            row.add(token_id, logprob, policy)
        return ids_B

    def _leave(self, staying: list[int]) -> None:
        assert self._batch is not None
        left = [row for row in self.rows if row.finish_reason is not None]
        self.rows = [self.rows[i] for i in staying]
        if self.rows:
            self._batch.keep(staying)
        else:
            self._batch = None
        for request in {id(row.request): row.request for row in left}.values():
            if request.is_finished:
                request.succeed([row.completion() for row in request.samples])


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
    full = len(row.token_ids) >= sampling.max_tokens or row.request.outcome.cancelled()
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
