"""Causal attention within the sequences of a pack, at no cost for padding or for other sequences.

`use_packed_attention` gives it to a model of full attention; models with other kinds keep their
own, with a mask that transformers derives from the positions.

Shapes: T tokens of a pack, H query heads, K key heads, D dimensions of a head, S sequences of at
most W tokens.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

_NAME = "assay_packed"


def use_packed_attention(model: PreTrainedModel) -> None:
    """Let `model` compute attention by packs, if all its layers have full attention."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    is_full = not kinds and not getattr(config, "sliding_window", None)
    if is_full and getattr(config, "attn_logit_softcapping", None) is None:
        AttentionInterface.register(_NAME, _attend)
        AttentionMaskInterface.register(_NAME, _no_mask)
        model.set_attn_implementation(_NAME)


def is_packed(model: PreTrainedModel) -> bool:
    """Return True for a model with attention by packs."""
    return bool(model.config.get_text_config()._attn_implementation == _NAME)


def arguments(bounds_S: torch.Tensor, max_length: int) -> dict[str, Any]:
    """Return the arguments of a model's forward pass that tell where its sequences are."""
    return {
        "cu_seq_lens_q": bounds_S,
        "cu_seq_lens_k": bounds_S,
        "max_length_q": max_length,
        "max_length_k": max_length,
    }


def _no_mask(*_: Any, attention_mask: torch.Tensor | None = None, **__: Any) -> None:
    if attention_mask is not None and not bool(attention_mask.all()):
        raise ValueError("a padded batch has no packs: leave the padding out")


def _attend(
    module: torch.nn.Module,
    query_1HTD: torch.Tensor,
    key_1KTD: torch.Tensor,
    value_1KTD: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int = 0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention's output, (1, T, H, D). Without sequences, each row is one."""
    repeats = query_1HTD.shape[1] // key_1KTD.shape[1]
    key_1HTD = key_1KTD.repeat_interleave(repeats, dim=1)
    value_1HTD = value_1KTD.repeat_interleave(repeats, dim=1)
    if cu_seq_lens_q is None:
        heads = scaled_dot_product_attention(
            query_1HTD, key_1HTD, value_1HTD, is_causal=query_1HTD.shape[2] > 1, scale=scaling
        )
        return heads.transpose(1, 2).contiguous(), None
    query, key, value = (one[0].transpose(0, 1) for one in (query_1HTD, key_1HTD, value_1HTD))
    has_kernel = value.is_cuda and value.dtype in (torch.bfloat16, torch.float16)
    attend = _varlen if has_kernel else _padded
    # Under autocast, the rotation by positions leaves queries and keys in float32.
    query, key = query.to(value.dtype), key.to(value.dtype)
    return attend(query, key, value, cu_seq_lens_q, max_length_q, scaling)[None], None


def _varlen(
    query_THD: torch.Tensor,
    key_THD: torch.Tensor,
    value_THD: torch.Tensor,
    bounds_S: torch.Tensor,
    max_length: int,
    scaling: float | None,
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    found = varlen_attn(
        query_THD.contiguous(),
        key_THD.contiguous(),
        value_THD.contiguous(),
        bounds_S,
        bounds_S,
        max_length,
        max_length,
        scale=scaling,
        window_size=(-1, 0),
    )
    assert isinstance(found, torch.Tensor)  # without `return_aux`
    return found


def _padded(
    query_THD: torch.Tensor,
    key_THD: torch.Tensor,
    value_THD: torch.Tensor,
    bounds_S: torch.Tensor,
    max_length: int,
    scaling: float | None,
) -> torch.Tensor:
    """Attend without a kernel for packs: the attention alone is padded.

    Padding comes after a sequence's tokens, so causal attention never reads it.
    """
    lengths_S = bounds_S.diff().long()
    sequence_T = torch.arange(len(lengths_S), device=bounds_S.device).repeat_interleave(lengths_S)
    place_T = torch.arange(len(sequence_T), device=bounds_S.device) - bounds_S[sequence_T]

    def pad(flat_THD: torch.Tensor) -> torch.Tensor:
        padded_SWHD = flat_THD.new_zeros(len(lengths_S), max_length, *flat_THD.shape[1:])
        padded_SWHD = padded_SWHD.index_put((sequence_T, place_T), flat_THD)
        return padded_SWHD.transpose(1, 2)

    heads_SHWD = scaled_dot_product_attention(
        pad(query_THD), pad(key_THD), pad(value_THD), is_causal=True, scale=scaling
    )
    return heads_SHWD.transpose(1, 2)[sequence_T, place_T]
