"""A model as shards over ranks by FSDP2: float32 weights, computed with in bf16 on GPUs.

`accelerate`'s own preparation puts the last norm and the head into one unit; the fused head reads
the head's weight without a call of its module, so that unit would never open. Here the head
belongs to the whole model's unit.
"""

from collections.abc import Collection

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from transformers import PreTrainedModel

from assay_shared.standalone.weight_transfer.fingerprint import fingerprint_sums
from assay_trainer.learner.ranks import Ranks
from assay_trainer.weights.served_dtype import served_dtypes


def shard(model: PreTrainedModel, ranks: Ranks) -> None:
    """Shard `model` in place, layer by layer; gradients are summed in float32.

    After a pack's forward pass, the whole weights of a layer stay in memory if one rank holds them
    anyway.
    """
    on_gpu = ranks.device.type == "cuda"
    mesh = init_device_mesh(ranks.device.type, (ranks.size,))
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if on_gpu else None, reduce_dtype=torch.float32
    )
    kinds = set(model._no_split_modules or ())
    for module in model.modules():
        if type(module).__name__ in kinds:
            fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=ranks.size > 1)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


def close(model: PreTrainedModel) -> None:
    """Let every layer have its shard again: after a forward pass alone, some are whole."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of a tensor; all of one that is not sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole of a tensor; if it is sharded, every rank calls this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gather(
    trained: PreTrainedModel, names: Collection[str], dtype: torch.dtype | None, *, keep: bool
) -> dict[str, torch.Tensor]:
    """Return some whole weights in `dtype`, or in their served types; every rank calls this.

    Each weight is rounded before it is gathered, one after another. Without `keep`, the result is
    empty: a rank other than rank 0 takes part only.
    """
    dtypes = served_dtypes(trained)
    weights = dict(trained.named_parameters())
    found = {}
    for name in names:
        weight = weights[name].detach()
        value = whole(weight.to(dtype or dtypes.get(name, weight.dtype)))
        if keep:
            found[name] = value
    return found


def fingerprints(trained: PreTrainedModel, dtype: torch.dtype, ranks: Ranks) -> dict[str, int]:
    """Return the fingerprint of each weight in `dtype`; every rank calls this.

    Each rank reads its shards, and their sums are added up: no weight is gathered.
    """
    named = dict(trained.named_parameters())
    sums = fingerprint_sums(
        (own_part(weight.detach()).to(dtype), _first_row(weight), 0) for weight in named.values()
    )
    totals = ranks.sum(sums).tolist()
    return {name: total % 2**64 for name, total in zip(named, totals, strict=True)}


def _first_row(weight: torch.Tensor) -> int:
    """Return the first row of this rank's part, which is a part of the rows."""
    if not isinstance(weight, DTensor):
        return 0
    _, (first_row, *_) = compute_local_shape_and_global_offset(
        weight.shape, weight.device_mesh, weight.placements
    )
    return int(first_row)
