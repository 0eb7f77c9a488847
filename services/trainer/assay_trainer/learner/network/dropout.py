"""GRPO and DPO train without dropout and other noise.

Sampled log-probabilities, and those of a reference, come from a network without noise. With it, the
ratio to them would not be 1 at the start, and recomputed activations would be others.
"""

from copy import copy

import torch
from transformers import PreTrainedModel

from assay_trainer.weights.adapter import bare

#: A mixture of experts multiplies the inputs of its router by noise of this width.
_JITTER = ("jitter_noise", "router_jitter_noise")


def remove_dropout(model: PreTrainedModel) -> None:
    """Set each probability of dropout to 0 in the model's parts.

    `model.config` stays as it is, since it is published; its readers get a copy without dropout.
    """
    network = bare(model)
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        _clear(module)
    quiet = copy(network.config)
    if _clear(quiet):
        for module in network.modules():
            if module is not network and getattr(module, "config", None) is network.config:
                vars(module)["config"] = quiet


def _clear(thing: object) -> bool:
    """Set the numbers with such a name to 0; return True if one was another."""
    names = [
        name
        for name, value in vars(thing).items()
        if isinstance(value, float) and value and ("drop" in name or name in _JITTER)
    ]
    for name in names:
        setattr(thing, name, 0.0)
    return bool(names)
