"""A model whose weights are shards of several processes: published part by part.

Such a model has the names, shapes and types of its weights, and NaN in place of their values. The
values come from its `Shards`, some at a time.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel

from assay_shared.standalone.weight_transfer.manifest import Bucket
from assay_trainer.weights.served_dtype import served_dtypes

_ATTRIBUTE = "assay_shards"
Tensors = dict[str, torch.Tensor]


class Shards(Protocol):
    """The weights of a model that several processes hold; rank 0 calls it, one call at a time."""

    def fingerprints(self, dtype: torch.dtype) -> dict[str, int]:
        """Return the fingerprint of each weight in `dtype`; no weight is gathered."""
        ...

    def gather(self, names: Collection[str], dtype: torch.dtype | None = None) -> Tensors:
        """Return some whole weights in `dtype`; without it, in their served types."""
        ...


def make_hollow(model: PreTrainedModel, shards: Shards, device: torch.device) -> None:
    """Let the values of `model` come from `shards`, and free its own.

    The model is then on `device`, in its served types.
    """
    dtypes = served_dtypes(model)
    for name, weight in model.named_parameters():
        weight.data = _nothing(weight.shape, dtypes.get(name, weight.dtype), device)
    model.to(device)  # type: ignore[arg-type]  # its wrapper hides the signature
    setattr(model, _ATTRIBUTE, shards)


def shards_of(model: PreTrainedModel) -> Shards | None:
    """Return the source of a hollow model's values; None for another model."""
    found: Shards | None = getattr(model, _ATTRIBUTE, None)
    return found


@contextmanager
def gathered_layers(model: PreTrainedModel) -> Iterator[None]:
    """Let a hollow model compute in the block: each layer has its weights while it computes.

    A module outside of all layers, such as the head, has its own weights while it computes.
    """
    shards = shards_of(model)
    if shards is None:
        yield
        return
    names = {id(weight): name for name, weight in model.named_parameters()}
    handles = []
    for module, weights in _units(model):
        mine = {names[id(weight)]: weight for weight in weights}
        fill, empty = _filling(shards, mine), _emptying(mine)
        handles += [
            module.register_forward_pre_hook(fill),
            module.register_forward_hook(empty, always_call=True),
        ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def bucket_reader(
    model: PreTrainedModel, tensors: Mapping[str, torch.Tensor], buckets: Sequence[Bucket]
) -> Callable[[str], torch.Tensor]:
    """Return a function from names to tensors, which is asked once for each, bucket by bucket.

    Of a hollow model, one bucket's weights are gathered at a time, in the buckets' types.
    """
    shards = shards_of(model)
    if shards is None:
        return tensors.__getitem__
    sharded = {name for name, _ in model.named_parameters()}
    bucket_of = {slot.entry.name: bucket for bucket in buckets for slot in bucket.slots}
    held: Tensors = {}

    def read(name: str) -> torch.Tensor:
        if name not in sharded:
            return tensors[name]
        if name not in held:
            entries = [slot.entry for slot in bucket_of[name].slots if slot.entry.name in sharded]
            dtype: torch.dtype = getattr(torch, entries[0].dtype)
            held.update(shards.gather([entry.name for entry in entries], dtype))
        return held.pop(name)

    return read


def _units(model: PreTrainedModel) -> Iterator[tuple[torch.nn.Module, list[torch.nn.Parameter]]]:
    """Yield the modules that get their weights together: layers, then modules outside of them."""
    kinds = set(model._no_split_modules or ())
    within: set[int] = set()
    for module in model.modules():
        if type(module).__name__ in kinds:
            yield module, list(module.parameters())
            within |= {id(one) for one in module.modules()}
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        if own and id(module) not in within:
            yield module, own


def _filling(shards: Shards, weights: Mapping[str, torch.nn.Parameter]) -> Callable[..., None]:
    def fill(*_: Any) -> None:
        for name, value in shards.gather(list(weights)).items():
            weights[name].data = value

    return fill


def _emptying(weights: Mapping[str, torch.nn.Parameter]) -> Callable[..., None]:
    def empty(*_: Any) -> None:
        for weight in weights.values():
            weight.data = _nothing(weight.shape, weight.dtype, weight.device)

    return empty


def _nothing(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return NaN of a shape, in the memory of one entry."""
    return torch.full((), math.nan, dtype=dtype, device=device).expand(shape)
