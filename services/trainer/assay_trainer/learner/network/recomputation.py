"""The layers to compute twice if memory cannot keep all activations.

They are the first ones: their gradients come last, after the other layers' activations are freed.
"""

import math

import torch
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from assay_trainer.learner.network import attention
from assay_trainer.learner.network.adapters import recipe_of
from assay_trainer.learner.network.memory import Training, estimate_memory, saved_by_a_layer
from assay_trainer.learner.ranks import Ranks

#: A rank alone may run out of memory and try again. One of several may not: the others wait for it.
_MARGIN_OF_SEVERAL = 1.25


class Recomputation:
    """A model's layers with gradient checkpointing, chosen before each gradient."""

    def __init__(self, model: PreTrainedModel, ranks: Ranks) -> None:
        self._model, self._ranks = model, ranks
        layers = [one for one in model.modules() if isinstance(one, GradientCheckpointingLayer)]
        text = model.config.get_text_config()
        is_dense = getattr(text, "num_experts_per_tok", None) is None
        is_known = len(layers) == text.num_hidden_layers and attention.is_packed(model) and is_dense
        #: Empty if memory cannot be estimated: all layers compute twice, or none.
        self._layers = layers if is_known else []
        self._ran_out = False

    @property
    def num_layers(self) -> int:
        """The present number of layers with gradient checkpointing."""
        return sum(
            one.gradient_checkpointing
            for one in self._model.modules()
            if isinstance(one, GradientCheckpointingLayer)
        )

    def choose(self, training: Training, *, has_moments: bool) -> None:
        """Let as few layers compute twice as every rank's free memory allows; all ranks call this.

        Args:
            training: the largest forward pass of this rank.
            has_moments: whether the optimiser's states exist already.
        """
        if self._ran_out or (free := free_bytes(self._ranks.device)) is None:
            return
        if not self._layers:
            if self._ranks.size > 1:
                self._model.gradient_checkpointing_enable()
            return
        margin = _MARGIN_OF_SEVERAL if self._ranks.size > 1 else 1.0
        needed = margin * _needed(self._model, training, has_moments=has_moments)
        own = math.ceil(
            max(0.0, needed - free) / (margin * saved_by_a_layer(self._model, training))
        )
        most = self._ranks.max(torch.tensor([own], device=self._ranks.device))
        self._compute_twice(min(int(most), len(self._layers)))

    def choose_all(self) -> bool:
        """Let all layers compute twice from here on.

        Returns:
            False if they did already, or if other ranks wait for this one.
        """
        did_already = self._ran_out or (self._layers and self.num_layers == len(self._layers))
        if did_already or self._ranks.size > 1:
            return False
        self._ran_out = True
        self._model.gradient_checkpointing_enable()
        return True

    def _compute_twice(self, number: int) -> None:
        if number == self.num_layers:
            return
        self._model.gradient_checkpointing_enable()
        for layer in self._layers[number:]:
            layer.gradient_checkpointing = False


def free_bytes(device: torch.device) -> int | None:
    """Return the free memory for tensors on a GPU; None for a CPU."""
    if device.type != "cuda":
        return None
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def _needed(model: PreTrainedModel, training: Training, *, has_moments: bool) -> int:
    """Return the bytes of an update next to the weights, with the activations of all layers."""
    found = estimate_memory(model, training)
    moments = 0 if has_moments else found.optimiser
    gathered = found.gathered if recipe_of(model) is None else 0
    return found.gradients + moments + gathered + found.activations + found.logits
