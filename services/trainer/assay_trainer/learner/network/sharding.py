"""A model as shards over ranks by FSDP2: float32 weights, computed with in bf16 on GPUs.

`accelerate`'s own preparation puts the last norm and the head into one unit; the fused head reads
the head's weight without a call of its module, so that unit would never open. Here the head
belongs to the whole model's unit.
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

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


def copy_weights(trained: PreTrainedModel, served: PreTrainedModel | None) -> None:
    """Copy all weights to `served`, rounded to its types; every rank calls this, most with None.

    Each weight is rounded before it is gathered, one after another.
    """
    targets = dict(served.named_parameters()) if served is not None else {}
    dtypes = served_dtypes(trained)
    for name, weight in trained.named_parameters():
        found = whole(weight.detach().to(dtypes.get(name, weight.dtype)))
        if name in targets:
            targets[name].data.copy_(found)
