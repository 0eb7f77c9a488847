"""Decoding: the rows that run together, from the step they join to the step they leave."""

from functools import partial
from itertools import groupby

import torch

from assay_inference.batch import Batch
from assay_inference.jobs import Generate, Row
from assay_inference.model import Model
from assay_inference.sampling import draw
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
        ids_B, logprobs_B = draw(
            self._logits_BV,
            torch.tensor([s.temperature for s in sampling], device=device),
            torch.tensor([s.top_p for s in sampling], device=device),
            torch.tensor(uniform, device=device, dtype=torch.float32),
        )
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


def _ended(row: Row, model: Model) -> bool:
    """Whether the row's newest token was its last; its text is brought up to date."""
    sampling = row.request.sampling
    at_end = row.token_ids[-1] in model.vocabulary.end_ids
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
