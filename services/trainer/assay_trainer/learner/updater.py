"""One optimiser step over the packs of a batch.

The weights and the optimiser's states are float32, whatever type the checkpoint has: at a learning
rate of 1e-6, most updates are smaller than a step of bfloat16. A GPU computes in bfloat16.

Shapes: T tokens of a pack, L sampled tokens.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from assay_trainer.config import GRPOConfig
from assay_trainer.events import Mismatch
from assay_trainer.learner import attention
from assay_trainer.learner.callbacks import Diverged
from assay_trainer.learner.mismatch import MismatchSums
from assay_trainer.learner.objective import Objective, policy_loss
from assay_trainer.learner.packs import Pack

_WEIGHTS, _OPTIMISER = "model.safetensors", "optimizer.pt"
_IGNORED = -100
#: Entries of each tensor that are compared before and after an update.
_COMPARED = 4096


@dataclass(frozen=True)
class GradientFacts:
    """A step's gradient; shares and means are over the sampled tokens of all packs."""

    loss: float
    grad_norm: float
    entropy: float
    kl: float
    clipped_low: float
    clipped_high: float
    #: Tokens that the model read, prompts included.
    num_read: int


@dataclass(frozen=True)
class UpdateFacts:
    """A finished update."""

    gradient: GradientFacts
    mismatch: Mismatch | None
    learning_rate: float
    #: Share of the weights that the update changed, estimated from a part of them.
    moved_share: float
    #: The most GPU memory in use so far; None without a GPU.
    memory_bytes: int | None


class Updater:
    """The trained model with its optimiser. A step is `backward`, then `apply`."""

    def __init__(self, model: PreTrainedModel, config: GRPOConfig) -> None:
        """Prepare `model` in place; with a KL term, a copy of it becomes the reference policy."""
        from assay_trainer.learner.trl_backend import add_logprob_head

        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model.to(self._device)  # type: ignore[arg-type]  # its wrapper hides the signature
        attention.use_packed_attention(model)
        self._reference = deepcopy(model).eval() if config.kl_weight else None
        for one in (model, self._reference):
            if one is not None:
                add_logprob_head(one, config.temperature)
        self._model = model.train()
        self._config = config
        self._objective = Objective.of(config)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimiser = torch.optim.AdamW(
            self._parameters, lr=config.learning_rate, weight_decay=0.0
        )
        self.mismatch = MismatchSums()

    @property
    def objective(self) -> Objective:
        return self._objective

    def backward(self, packs: Sequence[Pack]) -> GradientFacts:
        """Compute the gradient of a step and clip its norm; `mismatch` is then of these packs.

        If memory runs out, activations are computed twice from here on (gradient checkpointing).

        Raises:
            Diverged: the loss or the gradient is not finite; nothing was applied.
        """
        sums = None
        try:
            sums = self._backward_all(packs)
        except torch.OutOfMemoryError:
            if self._model.is_gradient_checkpointing:
                raise
        if sums is None:  # not in the handler: its traceback keeps the activations
            self._model.gradient_checkpointing_enable()
            torch.cuda.empty_cache()
            sums = self._backward_all(packs)
        num_sampled = sum(len(pack.places_L) for pack in packs)
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm)
        loss, entropy, kl, low, high = sums.tolist()
        for name, value in (("loss", loss), ("grad_norm", float(norm))):
            if not math.isfinite(value):
                raise Diverged(f"{name} is {value}; the weights are those of the step before")
        every = max(1, num_sampled)
        num_read = sum(len(pack.token_ids_T) for pack in packs)
        return GradientFacts(
            loss, float(norm), entropy / every, kl / every, low / every, high / every, num_read
        )

    def apply(
        self, step: int, gradient: GradientFacts, mismatch: Mismatch | None = None
    ) -> UpdateFacts:
        """Update the weights as the step with this number, from 1.

        The learning rate grows linearly over the warm-up, then stays.
        """
        warmup = self._config.warmup_steps
        rate = self._config.learning_rate * min(1.0, step / max(1, warmup))
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        before = [_some(parameter).clone() for parameter in self._parameters]
        self._optimiser.step()
        self._optimiser.zero_grad()
        moved = sum(
            float((_some(parameter) != was).float().mean()) * parameter.numel()
            for parameter, was in zip(self._parameters, before, strict=True)
        )
        share = moved / sum(parameter.numel() for parameter in self._parameters)
        on_gpu = self._device.type == "cuda"
        memory = torch.cuda.max_memory_allocated(self._device) if on_gpu else None
        return UpdateFacts(gradient, mismatch, rate, share, memory)

    def measure(self, packs: Sequence[Pack]) -> None:
        """Add the fresh tokens of packs to the mismatch without training on them."""
        for pack in packs:
            moved = _moved(pack, self._device)
            with torch.no_grad():
                logprobs_L, _ = self._logprobs(self._model, moved)
            self.mismatch.add(logprobs_L, moved.loss.old_logprobs_L, moved.fresh_L)

    def save(self, folder: Path) -> None:
        """Write the weights in float32 and the optimiser's states."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: one.detach().contiguous() for name, one in self._model.named_parameters()}
        save_file(weights, folder / _WEIGHTS)
        torch.save(self._optimiser.state_dict(), folder / _OPTIMISER)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote; the reference policy stays."""
        weights = load_file(folder / _WEIGHTS)
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                parameter.copy_(weights[name])
        states = torch.load(folder / _OPTIMISER, map_location=self._device, weights_only=True)
        self._optimiser.load_state_dict(states)

    def _backward_all(self, packs: Sequence[Pack]) -> torch.Tensor:
        self.mismatch = MismatchSums()
        self._optimiser.zero_grad()
        sums = torch.zeros(5, device=self._device)
        for pack in packs:
            sums += self._backward(_moved(pack, self._device))
        return sums

    def _backward(self, pack: Pack) -> torch.Tensor:
        """Add the gradient of a pack; return loss, entropy, KL and clipped tokens as sums."""
        tokens = pack.loss
        if self._reference is not None:
            with torch.no_grad():
                reference_L, _ = self._logprobs(self._reference, pack)
            tokens = replace(tokens, reference_logprobs_L=reference_L)
        logprobs_L, entropy_L = self._logprobs(self._model, pack)
        found = policy_loss(self._objective, logprobs_L, tokens)
        found.loss.backward()
        self.mismatch.add(logprobs_L, tokens.old_logprobs_L, pack.fresh_L)
        sums = (entropy_L.sum(), found.kl, found.num_clipped_low, found.num_clipped_high)
        return torch.stack([found.loss, *sums]).detach().float()

    def _logprobs(self, model: PreTrainedModel, pack: Pack) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-probability and the entropy of each sampled token, in nats."""
        labels_T = torch.full_like(pack.token_ids_T, _IGNORED)
        labels_T[pack.places_L] = pack.token_ids_T[pack.places_L]
        with self._autocast():
            found: Any = model(
                input_ids=pack.token_ids_T[None],
                position_ids=pack.position_ids_T[None],
                labels=labels_T[None],
                fused_lm_head=True,
                **attention.arguments(pack.bounds_S, pack.max_length),
            )
        before_L = pack.places_L - 1
        return found.log_probs[0, before_L], found.entropy[0, before_L].detach()

    def _autocast(self) -> AbstractContextManager[object]:
        on_gpu = self._device.type == "cuda"
        return torch.autocast("cuda", dtype=torch.bfloat16) if on_gpu else nullcontext()


def _some(parameter: torch.Tensor) -> torch.Tensor:
    """Return some entries of a tensor, evenly spread: at most twice `_COMPARED`."""
    return parameter.detach().flatten()[:: max(1, parameter.numel() // _COMPARED)]


def _moved(pack: Pack, device: torch.device) -> Pack:
    """Return the pack with all tensors on the device."""

    def move(value: Any) -> Any:
        return value.to(device) if isinstance(value, torch.Tensor) else value

    loss = replace(pack.loss, **{name: move(one) for name, one in vars(pack.loss).items()})
    own = {name: move(one) for name, one in vars(pack).items() if name != "loss"}
    return replace(pack, loss=loss, **own)
