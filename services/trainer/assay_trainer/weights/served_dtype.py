"""The types of a policy's published weights, where it is trained in float32."""

from collections.abc import Mapping

import torch
from transformers import PreTrainedModel

_ATTRIBUTE = "assay_served_dtypes"


def keep_served_dtypes(model: PreTrainedModel) -> None:
    """Let versions of `model` be published in its present types, whatever they become."""
    dtypes = {name: weight.dtype for name, weight in model.state_dict().items()}
    setattr(model, _ATTRIBUTE, (model.dtype, dtypes))


def copy_served_dtypes(model: PreTrainedModel, to: PreTrainedModel) -> None:
    """Let versions of `to` be published in the types of `model`."""
    setattr(to, _ATTRIBUTE, (served_dtype(model), served_dtypes(model)))


def served_dtype(model: PreTrainedModel) -> torch.dtype:
    """Return the type of the published model: the kept one, else the model's own."""
    kept = _kept(model)
    return model.dtype if kept is None else kept[0]


def served_dtypes(model: PreTrainedModel) -> dict[str, torch.dtype]:
    """Return the type of each published weight by name; empty if none was kept."""
    kept = _kept(model)
    return {} if kept is None else kept[1]


def as_served(
    model: PreTrainedModel, weights: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the weights in their served types; a weight of the right type is not copied."""
    kept = _kept(model)
    if kept is None:
        return dict(weights)
    return {name: weight.to(kept[1].get(name, weight.dtype)) for name, weight in weights.items()}


def _kept(model: PreTrainedModel) -> tuple[torch.dtype, dict[str, torch.dtype]] | None:
    found: tuple[torch.dtype, dict[str, torch.dtype]] | None = getattr(model, _ATTRIBUTE, None)
    return found
