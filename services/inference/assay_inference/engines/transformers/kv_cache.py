"""The KV cache of the running rows.

Shapes: B rows, P prompts, T tokens, C tokens of a chunk.

Rows are padded on the left to a common length T, so all rows' next token is in the same column;
rows join and leave between any two steps.
"""

from collections.abc import Sequence
from typing import cast

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from assay_inference.engines.transformers.prefix_cache import Columns


class Reading:
    """Prompts in reading, in chunks, before their rows join a batch.

    All begin with the columns of `known`, already read.
    """

    def __init__(
        self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], known: Columns | None = None
    ) -> None:
        num_known = known[0][0].shape[1] if known else 0
        self._model = model
        self._cache = DynamicCache()
        self._ids_PT, self._mask_PT = _left_padded(
            [prompt[num_known:] for prompt in prompts], model.device
        )
        if known:
            front = torch.ones(len(prompts), num_known, dtype=torch.bool, device=model.device)
            self._mask_PT = torch.cat([front, self._mask_PT], dim=1)
            for index, (keys, values) in enumerate(known):
                shape = (len(prompts), -1, -1, -1)
                self._cache.update(keys.expand(shape), values.expand(shape), index)
        self._positions_PT = (self._mask_PT.long().cumsum(dim=1) - 1).clamp(min=0)
        self._num_known = self._num_read = num_known
        #: Of the token after each prompt, (P, V). Set once all is read.
        self.logits_PV: torch.Tensor | None = None

    @property
    def num_columns(self) -> int:
        return self._mask_PT.shape[1]

    def advance(self, num_tokens: int) -> bool:
        """Read about `num_tokens` more of all prompts together; true once all is read."""
        num_prompts, num_columns = self._mask_PT.shape
        start = self._num_read
        end = min(num_columns, start + max(1, num_tokens // num_prompts))
        device = self._mask_PT.device
        columns_C1 = torch.arange(start, end, device=device)[:, None]
        columns_T = torch.arange(end, device=device)
        attend_PCT = self._mask_PT[:, None, :end] & (columns_T <= columns_C1)
        # A padded place attends to itself: a softmax over nothing would be NaN.
        attend_P1CT = (attend_PCT | (columns_T == columns_C1))[:, None]
        ids_PC = self._ids_PT[:, start - self._num_known : end - self._num_known]
        positions_PC = self._positions_PT[:, start:end]
        logits_PV = _forward(self._model, ids_PC, positions_PC, attend_P1CT, self._cache)
        self._num_read = end
        if end == num_columns:
            self.logits_PV = logits_PV
        return end == num_columns

    def columns(self, prompt: int) -> Columns:
        """Return a prompt's columns without padding."""
        return _real_columns(self._cache, self._mask_PT, prompt)

    def give_up(self, copies: Sequence[int]) -> tuple[DynamicCache, torch.Tensor, torch.Tensor]:
        """Return the cache, and row by row the prompts' places in it and the mask."""
        device = self._mask_PT.device
        repeats = torch.tensor(copies, device=device)
        rows_B = torch.arange(len(copies), device=device).repeat_interleave(repeats)
        return self._cache, rows_B, self._mask_PT[rows_B]


class KVCache:
    """Keys and values of the running rows, and a mask of their real columns."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._cache = DynamicCache()
        self._mask_BT = torch.zeros(0, 0, dtype=torch.bool, device=model.device)

    @property
    def num_columns(self) -> int:
        return self._mask_BT.shape[1]

    def join(self, reading: Reading, copies: Sequence[int]) -> torch.Tensor:
        """Add `copies[i]` rows after prompt i of the reading, and empty the reading.

        Returns:
            The logits of the new rows' first token, (B, V).
        """
        assert reading.logits_PV is not None, "all was read"
        cache, rows_B, mask_BT = reading.give_up(copies)
        num_columns = max(self.num_columns, mask_BT.shape[1])
        is_first = not len(self._mask_BT)
        for index, theirs in enumerate(_layers(cache)):
            keys, values = _columns(theirs.keys)[rows_B], _columns(theirs.values)[rows_B]
            theirs.keys = theirs.values = None  # so that no two whole caches are held
            if is_first:
                self._cache.update(keys, values, index)
                continue
            mine = _layers(self._cache)[index]
            mine.keys = _joined(mine.keys, keys, num_columns)
            mine.values = _joined(mine.values, values, num_columns)
        self._mask_BT = torch.cat(
            [_pad_mask(self._mask_BT, num_columns), _pad_mask(mask_BT, num_columns)]
        )
        return reading.logits_PV[rows_B]

    def step(self, ids_B: torch.Tensor) -> torch.Tensor:
        """Append a token to each row; return the logits of the next, (B, V)."""
        positions_B1 = self._mask_BT.sum(dim=1, keepdim=True)
        new_B1 = torch.ones_like(self._mask_BT[:, :1])
        self._mask_BT = torch.cat([self._mask_BT, new_B1], dim=1)
        # Without a mask, where none is needed, attention reads each group's keys in place.
        is_padded = not bool(self._mask_BT.all())
        attend_B11T = self._mask_BT[:, None, None, :] if is_padded else None
        return _forward(self._model, ids_B[:, None], positions_B1, attend_B11T, self._cache)

    def keep(self, rows: list[int]) -> None:
        """Drop all other rows, and the columns with only padding in the kept rows."""
        index = torch.tensor(rows, device=self._mask_BT.device)
        self._mask_BT = self._mask_BT[index]
        padding = int(self._mask_BT.long().argmax(dim=1).min())
        self._mask_BT = self._mask_BT[:, padding:]
        for layer in _layers(self._cache):
            layer.keys = _columns(layer.keys)[index][:, :, padding:]
            layer.values = _columns(layer.values)[index][:, :, padding:]

    def columns(self, row: int) -> Columns:
        """Return a row's columns without padding."""
        return _real_columns(self._cache, self._mask_BT, row)


def _forward(
    model: PreTrainedModel,
    ids_BT: torch.Tensor,
    positions_BT: torch.Tensor,
    attend_B1TS: torch.Tensor | None,
    cache: DynamicCache,
) -> torch.Tensor:
    """Return the logits of the last column, (B, V)."""
    out = model(
        input_ids=ids_BT,
        attention_mask=attend_B1TS,
        position_ids=positions_BT,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits: torch.Tensor = out.logits[:, -1]
    return logits


def _left_padded(
    prompts: Sequence[Sequence[int]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    num_columns = max(map(len, prompts))
    ids_BT = torch.zeros(len(prompts), num_columns, dtype=torch.long)
    mask_BT = torch.zeros(len(prompts), num_columns, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        ids_BT[row, num_columns - len(prompt) :] = torch.tensor(prompt)
        mask_BT[row, num_columns - len(prompt) :] = True
    return ids_BT.to(device), mask_BT.to(device)


def _real_columns(cache: DynamicCache, mask_BT: torch.Tensor, row: int) -> Columns:
    is_real_T = mask_BT[row]
    place = slice(None) if bool(is_real_T.all()) else is_real_T
    return [
        (_columns(layer.keys)[row][:, place], _columns(layer.values)[row][:, place])
        for layer in _layers(cache)
    ]


def _layers(cache: DynamicCache) -> list[DynamicLayer]:
    return cast(list[DynamicLayer], cache.layers)  # `open_model` refuses other kinds


def _columns(state_BHTD: torch.Tensor | None) -> torch.Tensor:
    assert state_BHTD is not None, "a layer is filled by the first chunk"
    return state_BHTD


def _joined(
    mine_BHTD: torch.Tensor | None, theirs_BHTD: torch.Tensor, num_columns: int
) -> torch.Tensor:
    """Return the rows of both, padded on the left to a common length."""
    states = (_columns(mine_BHTD), theirs_BHTD)
    return torch.cat(
        [torch.nn.functional.pad(s, (0, 0, num_columns - s.shape[2], 0)) for s in states]
    )


def _pad_mask(mask_BT: torch.Tensor, num_columns: int) -> torch.Tensor:
    return torch.nn.functional.pad(mask_BT, (num_columns - mask_BT.shape[1], 0))
