"""The optimiser of the trained weights: AdamW with states in float32, or in 8 bits by torchao.

States of 8 bits (arXiv 2110.02861) have a scale for each block of 256 entries. A tensor with fewer
than 4,096 entries, or with a part of a block, keeps states in float32.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from transformers import PreTrainedModel

from assay_shared.errors import ConfigError
from assay_trainer.learner.network.sharding import own_part

OptimiserName = Literal["adamw", "adamw_8bit"]
_FIELD = "grpo.optimiser"
_FLOAT32 = 4
#: torchao's: the least entries of a tensor with states of 8 bits, and the entries of a block.
_LEAST, _BLOCK = 4096, 256


def check_optimiser(name: OptimiserName, num_ranks: int) -> None:
    """Check that this machine can train with the optimiser.

    Raises:
        ConfigError: states of 8 bits are asked for, and torchao is missing, or several processes
            train.
    """
    if name == "adamw":
        return
    if find_spec("torchao") is None:
        hint = "pip install 'assay-rl[adamw8bit]'"
        raise ConfigError(f"{name} needs torchao", field=_FIELD, hint=hint)
    if num_ranks > 1:
        raise ConfigError(
            f"{name} trains in one process, not in {num_ranks}: its states cannot be divided",
            field=_FIELD,
            hint="use adamw, or one GPU",
        )


def make_optimiser(
    name: OptimiserName, parameters: Sequence[torch.nn.Parameter], device: torch.device
) -> torch.optim.Optimizer:
    """Return the optimiser; `take_step` gives it a learning rate."""
    if name == "adamw":
        return torch.optim.AdamW(parameters, weight_decay=0.0, fused=device.type == "cuda")
    from torchao.optim import AdamW8bit

    return AdamW8bit(parameters, weight_decay=0.0)  # type: ignore[no-any-return]


def take_step(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Update the weights by their gradients, and forget the gradients."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    # torchao compiles its step. On a CPU, that takes minutes and a C++ compiler.
    is_eager = weights[0].device.type == "cpu"
    with torch.compiler.set_stance("force_eager") if is_eager else nullcontext():
        optimiser.step()
    optimiser.zero_grad()


def state_of(model: PreTrainedModel, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the states, as `load` of torch's checkpoints reads into them."""
    if isinstance(optimiser, torch.optim.AdamW):
        return get_optimizer_state_dict(model, optimiser)
    named = {name: one for name, one in model.named_parameters() if one.requires_grad}
    if not optimiser.state:
        for weight in named.values():
            weight.grad = torch.zeros_like(weight)
        take_step(optimiser, 0.0)
    with torch.no_grad():
        return {
            name: {kind: _plain(state) for kind, state in optimiser.state[weight].items()}
            for name, weight in named.items()
        }


def restore(
    model: PreTrainedModel, optimiser: torch.optim.Optimizer, state: Mapping[str, Any]
) -> None:
    """Take the states that were read into `state_of`."""
    if isinstance(optimiser, torch.optim.AdamW):
        set_optimizer_state_dict(model, optimiser, dict(state))


def state_bytes(name: OptimiserName, num_entries: int) -> int:
    """Return the bytes of both moments of a tensor."""
    if name == "adamw" or num_entries < _LEAST or num_entries % _BLOCK:
        return 2 * _FLOAT32 * num_entries
    scales_and_codes = _FLOAT32 * (num_entries // _BLOCK + 2**8)
    return 2 * (num_entries + scales_and_codes)


def _plain(state: torch.Tensor) -> torch.Tensor | dict[str, torch.Tensor]:
    """Return a state as tensors that share its memory."""
    own = own_part(state)
    if not is_traceable_wrapper_subclass(own):
        return own
    names, _ = own.__tensor_flatten__()
    return {name: getattr(own, name) for name in names}
