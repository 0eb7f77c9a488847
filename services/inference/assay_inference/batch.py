"""The sequences that are decoded together. Shapes: B rows, T tokens, H heads, D head width.

Rows are left-padded to one length T, so that all rows' next token is in the same column; rows
join and leave between any two steps.
"""

from typing import cast

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer


class Batch:
    """Keys and values of the running rows, and which columns of each row are real."""

    def __init__(self, model: PreTrainedModel, cache: DynamicCache, mask_BT: torch.Tensor) -> None:
        self._model = model
        self._cache = cache
        self._mask_BT = mask_BT

    @classmethod
    def prefill(
        cls, model: PreTrainedModel, prompts: list[list[int]], copies: list[int]
    ) -> tuple["Batch", torch.Tensor]:
        """Read each prompt once and copy its row `copies[i]` times.

        Returns:
            The batch of all copies, and the logits of their first token, (B, V).
        """
        ids_BT, mask_BT = _left_padded(prompts, model.device)
        cache = DynamicCache(config=model.config)
        positions_BT = (mask_BT.long().cumsum(dim=1) - 1).clamp(min=0)
        causal_TT = torch.ones(ids_BT.shape[1], ids_BT.shape[1], device=model.device).tril().bool()
        # A padded row attends to itself: a softmax over nothing would be NaN.
        eye_TT = torch.eye(ids_BT.shape[1], dtype=torch.bool, device=model.device)
        attend_B1TT = ((mask_BT[:, None, :] & causal_TT) | eye_TT)[:, None]
        logits_BV = _forward(model, ids_BT, positions_BT, attend_B1TT, cache)
        repeats = torch.tensor(copies, device=model.device)
        rows = torch.arange(len(prompts), device=model.device).repeat_interleave(repeats)
        cache.batch_select_indices(rows)
        return cls(model, cache, mask_BT[rows]), logits_BV[rows]

    def step(self, ids_B: torch.Tensor) -> torch.Tensor:
        """Append one token to each row; the logits of the next, (B, V)."""
        positions_B1 = self._mask_BT.sum(dim=1, keepdim=True)
        new_B1 = torch.ones_like(self._mask_BT[:, :1])
        self._mask_BT = torch.cat([self._mask_BT, new_B1], dim=1)
        attend_B11T = self._mask_BT[:, None, None, :]
        return _forward(self._model, ids_B[:, None], positions_B1, attend_B11T, self._cache)

    def keep(self, rows: list[int]) -> None:
        """Drop all other rows, and the columns that are padding in all that stay."""
        index = torch.tensor(rows, device=self._mask_BT.device)
        self._cache.batch_select_indices(index)
        self._mask_BT = self._mask_BT[index]
        padding = int(self._mask_BT.long().argmax(dim=1).min())
        self._mask_BT = self._mask_BT[:, padding:]
        for layer in _layers(self._cache):
            layer.keys = _columns(layer.keys)[:, :, padding:]
            layer.values = _columns(layer.values)[:, :, padding:]

    def join(self, other: "Batch") -> None:
        """Add the rows of `other` after these."""
        num_columns = max(self._mask_BT.shape[1], other._mask_BT.shape[1])
        for mine, theirs in zip(_layers(self._cache), _layers(other._cache), strict=True):
            mine.keys = _joined(mine.keys, theirs.keys, num_columns)
            mine.values = _joined(mine.values, theirs.values, num_columns)
        self._mask_BT = torch.cat(
            [_pad_mask(self._mask_BT, num_columns), _pad_mask(other._mask_BT, num_columns)]
        )


def _forward(
    model: PreTrainedModel,
    ids_BT: torch.Tensor,
    positions_BT: torch.Tensor,
    attend_B1TS: torch.Tensor,
    cache: DynamicCache,
) -> torch.Tensor:
    """Logits of the last column, (B, V)."""
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
    prompts: list[list[int]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    num_columns = max(map(len, prompts))
    ids_BT = torch.zeros(len(prompts), num_columns, dtype=torch.long)
    mask_BT = torch.zeros(len(prompts), num_columns, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        ids_BT[row, num_columns - len(prompt) :] = torch.tensor(prompt)
        mask_BT[row, num_columns - len(prompt) :] = True
    return ids_BT.to(device), mask_BT.to(device)


def _layers(cache: DynamicCache) -> list[DynamicLayer]:
    return cast(list[DynamicLayer], cache.layers)  # `open_model` refuses other kinds


def _columns(state_BHTD: torch.Tensor | None) -> torch.Tensor:
    assert state_BHTD is not None, "a layer is filled by the prefill"
    return state_BHTD


def _joined(
    mine_BHTD: torch.Tensor | None, theirs_BHTD: torch.Tensor | None, num_columns: int
) -> torch.Tensor:
    """The rows of both, padded on the left to one length."""
    states = (_columns(mine_BHTD), _columns(theirs_BHTD))
    return torch.cat(
        [torch.nn.functional.pad(s, (0, 0, num_columns - s.shape[2], 0)) for s in states]
    )


def _pad_mask(mask_BT: torch.Tensor, num_columns: int) -> torch.Tensor:
    return torch.nn.functional.pad(mask_BT, (num_columns - mask_BT.shape[1], 0))
