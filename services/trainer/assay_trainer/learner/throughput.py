"""Model FLOPs utilisation (MFU): the model's own arithmetic against the GPUs' peak rate.

A trained token costs 6 N floating-point operations, 2 N forward and 4 N backward (PaLM, arXiv
2204.02311, appendix B). N is the number of weights without the input embedding, because a lookup
multiplies nothing; an embedding tied to the head counts, as the head. Activations computed twice,
attention scores and a reference policy are left out.
"""

import re

import torch
from transformers import PreTrainedModel

from assay_trainer.learner.ranks import Ranks

#: Dense bf16 operations a second by device name, from the manufacturer's data sheets.
_PEAKS = (
    (r"\bA100\b", 312e12),
    (r"\bH100 PCIe\b", 756e12),
    (r"\bH100 \d+GB HBM3\b", 989e12),
    (r"\bH200\b(?! NVL)", 989e12),
    (r"\bB200\b", 2250e12),
)


def peak_flops(device_name: str) -> float | None:
    """Return a GPU's dense bf16 peak in operations a second; None if it is not known."""
    return next((peak for name, peak in _PEAKS if re.search(name, device_name)), None)


def device_peak_flops(device: torch.device) -> float | None:
    """Return the peak of this device; None on a CPU."""
    return peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def num_multiplied(model: PreTrainedModel) -> int:
    """Return N: the number of weights without the input embedding, unless it is the head too."""
    lookup, head = model.get_input_embeddings(), model.get_output_embeddings()
    total = sum(_num_weights(parameter) for parameter in model.parameters())
    looked_up = lookup.get_parameter("weight")
    is_tied = head is not None and head.get_parameter("weight") is looked_up
    return total - (0 if is_tied else looked_up.numel())


def _num_weights(parameter: torch.nn.Parameter) -> int:
    """Return the number of weights; one entry of a tensor in 4 bits holds two."""
    packed = getattr(parameter, "quant_state", None)
    return parameter.numel() if packed is None else int(packed.shape.numel())


def mfu(model: PreTrainedModel, tokens_per_s: float, ranks: Ranks) -> float | None:
    """Return the share of the ranks' peak that training uses; None if the peak is not known."""
    peak = device_peak_flops(ranks.device)
    if peak is None:
        return None
    return 6 * num_multiplied(model) * tokens_per_s / (peak * ranks.size)
