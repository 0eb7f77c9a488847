"""One optimiser step over the packs of a batch.

The weights and the optimiser's states are float32, whatever type the checkpoint has: at a learning
rate of 1e-6, most updates are smaller than a step of bfloat16. A GPU computes in bfloat16. On GPUs
and with several ranks, the weights are shards, which are published part by part.

Of a model with an adapter, the adapter alone is trained, every rank has all of the model, and the
model itself is published.

Shapes: T tokens of a pack, L sampled tokens.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict_loader import load
from transformers import PreTrainedModel

from assay_trainer.events import Mismatch
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.given_rows.callbacks import Diverged
from assay_trainer.learner.gradient_facts import NUM_SUMS, GradientFacts
from assay_trainer.learner.mismatch import MismatchSums
from assay_trainer.learner.network import attention, norms
from assay_trainer.learner.network.adapters import recipe_of
from assay_trainer.learner.network.dropout import remove_dropout
from assay_trainer.learner.network.memory import Training
from assay_trainer.learner.network.optimiser import (
    make_optimiser,
    restore,
    state_of,
    take_step,
)
from assay_trainer.learner.network.recomputation import Recomputation
from assay_trainer.learner.network.sharding import (
    close,
    fingerprints,
    gather,
    own_part,
    shard,
    whole,
)
from assay_trainer.learner.objective import LossTokens, Objective, policy_loss
from assay_trainer.learner.packs import Pack, shares
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.writing.state_writer import StateWriter
from assay_trainer.weights.adapter import adapter_off
from assay_trainer.weights.sharded import Tensors, make_hollow

_IGNORED = -100
#: Entries of each tensor that are compared before and after an update.
_COMPARED = 4096


@dataclass(frozen=True)
class UpdateFacts:
    """A finished update."""

    gradient: GradientFacts
    mismatch: Mismatch | None
    learning_rate: float
    #: Share of the weights that the update changed, estimated from a part of them.
    moved_share: float
    #: The most GPU memory in use since it last ran out; None without a GPU.
    memory_bytes: int | None
    #: Layers with gradient checkpointing.
    recomputed_layers: int


class Updater:
    """The trained model with its optimiser. A step is `backward`, then `apply`.

    With several ranks, each has an updater, and every method is called on all of them, in the same
    order. Facts are over all ranks.
    """

    def __init__(
        self, model: PreTrainedModel, config: GRPOConfig, ranks: Ranks | None = None
    ) -> None:
        """Take a policy in float32; after each `apply`, `model` is what is published.

        It is trained without dropout. With a KL term, a copy of it becomes the reference policy;
        with an adapter, it is the model with the adapter off.
        """
        from assay_trainer.learner.trl_backend import add_logprob_head

        self._ranks = ranks or Ranks()
        self._device = self._ranks.device
        attention.use_packed_attention(model)
        norms.use_fused_norms(model)
        remove_dropout(model)
        self._has_adapter = recipe_of(model) is not None
        self._is_sharded = self._ranks.is_sharded and not self._has_adapter
        self._reference: PreTrainedModel | None = None
        if config.kl_weight:
            self._reference = model if self._has_adapter else deepcopy(model).eval()
        if self._is_sharded:
            model = self._make_shards(model)
        add_logprob_head(model, config.temperature)
        if self._reference is not None and self._reference is not model:
            add_logprob_head(self._reference, config.temperature)
        self._model = model.train()
        self._config = config
        self._objective = Objective.of(config)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimiser = make_optimiser(config.optimiser, self._parameters, self._device)
        self._writer = StateWriter(self._ranks)
        self._recomputation = Recomputation(self._model, self._ranks)
        self.mismatch = MismatchSums(self._device)
        #: Of each own pack, with the log-probabilities of the step's first update.
        self._first: list[LossTokens] = []

    @property
    def objective(self) -> Objective:
        return self._objective

    def backward(self, packs: Sequence[Pack], *, again: bool = False) -> GradientFacts:
        """Compute the gradient of an update and clip its norm; `mismatch` is then of these packs.

        `again` is for a later update of a step, by the packs of its first. Its proximal policy is
        that of the first, and `mismatch` stays.

        As few layers compute their activations twice (gradient checkpointing) as memory allows. If
        it runs out, all do from here on.

        Raises:
            Diverged: the loss or the gradient is not finite; nothing was applied.
        """
        self._recomputation.choose(self._training(packs), has_moments=bool(self._optimiser.state))
        sums = None
        try:
            sums = self._backward_all(packs, again)
        except torch.OutOfMemoryError:
            if not self._recomputation.choose_all():
                raise
        if sums is None:  # not in the handler: its traceback keeps the activations
            torch.cuda.empty_cache()
            if self._device.type == "cuda":
                # Otherwise the most in use would be all that the failed attempt had found free.
                torch.cuda.reset_peak_memory_stats(self._device)
            sums = self._backward_all(packs, again)
        clip = torch.nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm)
        norm = float(whole(clip))
        found = GradientFacts.of(self._ranks.sum(sums), norm, self._objective)
        for name, value in (("loss", found.loss), ("grad_norm", norm)):
            if not math.isfinite(value):
                where = "in this update; the weights are those of the update before"
                raise Diverged.of(name, value, where)
        return found

    def backward_again(self, packs: Sequence[Pack]) -> GradientFacts:
        """Do `backward` again; the name by which a follower is called."""
        return Updater.backward(self, packs, again=True)

    def apply(
        self, step: int, gradient: GradientFacts, mismatch: Mismatch | None = None
    ) -> UpdateFacts:
        """Update the weights as the step with this number, from 1.

        The learning rate grows linearly over the warm-up, then stays.
        """
        warmup = self._config.warmup_steps
        rate = self._config.learning_rate * min(1.0, step / max(1, warmup))
        before = [_some(parameter).clone() for parameter in self._parameters]
        take_step(self._optimiser, rate)
        moved = sum(
            (_some(parameter) != was).double().sum() * own_part(parameter).numel() / was.numel()
            for parameter, was in zip(self._parameters, before, strict=True)
            if was.numel()
        )
        total = sum(parameter.numel() for parameter in self._parameters)
        moved_1 = torch.as_tensor(moved, dtype=torch.float64, device=self._device).reshape(1)
        share = float(self._sum_of_parts(moved_1)) / total
        on_gpu = self._device.type == "cuda"
        memory = torch.cuda.max_memory_allocated(self._device) if on_gpu else None
        layers = self._recomputation.num_layers
        return UpdateFacts(gradient, mismatch, rate, share, memory, layers)

    def measure(self, packs: Sequence[Pack]) -> None:
        """Add the fresh tokens of packs to the mismatch without training on them."""
        self.mismatch = MismatchSums(self._device)
        for pack in packs:
            moved = _moved(pack, self._device)
            with torch.no_grad():
                logprobs_L, _ = self._logprobs(self._model, moved)
            self.mismatch.add(logprobs_L, moved.loss.old_logprobs_L, moved.fresh_L)
        close(self._model)
        self._sum_mismatch()

    def save(self, folder: Path) -> Future[None]:
        """Begin to write the weights in float32 and the optimiser's states, each rank its shards.

        Training may continue at once. The future raises `NotWritten`. Waits for the files of the
        call before.
        """
        return self._writer.begin(self._state(), folder)

    def finish(self) -> None:
        """Wait for the files of the last `save`.

        Raises:
            NotWritten: they could not be written.
        """
        self._writer.wait()

    def load(self, folder: Path) -> None:
        """Read what `save` wrote, by any number of ranks; the reference policy stays."""
        state = self._state()
        load(state, checkpoint_id=folder)
        restore(self._model, self._optimiser, state["optimiser"])

    def fingerprints(self, dtype: torch.dtype) -> dict[str, int]:
        """Return the fingerprints of the sharded weights: see `weights.sharded.Shards`."""
        return fingerprints(self._model, dtype, self._ranks)

    def gather(self, names: Collection[str], dtype: torch.dtype | None = None) -> Tensors:
        """Return some of the sharded weights whole, on rank 0: see `weights.sharded.Shards`."""
        return gather(self._model, names, dtype, keep=self._ranks.rank == 0)

    def _make_shards(self, model: PreTrainedModel) -> PreTrainedModel:
        """Return the sharded model; `model` becomes hollow, with the served types."""
        trained = deepcopy(model)
        shard(trained, self._ranks)
        if self._reference is not None:
            shard(self._reference.requires_grad_(False), self._ranks)
        make_hollow(model, self, self._device)
        return trained

    def _training(self, packs: Sequence[Pack]) -> Training:
        """Return the sizes of an update by these packs."""
        return Training(
            tokens=max((len(pack.token_ids_T) for pack in packs), default=1),
            num_cards=self._ranks.size if self._is_sharded else 1,
            on_gpu=self._device.type == "cuda",
            optimiser=self._config.optimiser,
        )

    def _state(self) -> dict[str, Any]:
        named = self._model.named_parameters()
        weights = {name: one.detach() for name, one in named if one.requires_grad}
        return {"weights": weights, "optimiser": state_of(self._model, self._optimiser)}

    def _backward_all(self, packs: Sequence[Pack], again: bool) -> torch.Tensor:
        """Return the sums of `_backward` over own packs, then sampled and read tokens."""
        if not again:
            self._first, self.mismatch = [], MismatchSums(self._device)
        self._optimiser.zero_grad()
        sums = torch.zeros(NUM_SUMS, dtype=torch.float64, device=self._device)
        for number, pack in enumerate(packs):
            moved = _moved(pack, self._device)
            if again:
                moved = replace(moved, loss=self._first[number])
            sums[:-2] += self._backward(moved)
        if not self._is_sharded:
            for parameter in self._parameters:
                if parameter.grad is not None:
                    self._ranks.sum(parameter.grad)
        sums[-2] = sum(len(pack.places_L) for pack in packs)
        sums[-1] = sum(len(pack.token_ids_T) for pack in packs if len(pack.places_L))
        if not again:
            self._sum_mismatch()
        return sums

    def _sum_of_parts(self, value: torch.Tensor) -> torch.Tensor:
        """Return the sum over the ranks' parts of the trained weights."""
        return self._ranks.sum(value) if self._is_sharded else value

    def _sum_mismatch(self) -> None:
        self._ranks.sum(self.mismatch.sums_4)
        self._ranks.max(self.mismatch.max_1)

    def _backward(self, pack: Pack) -> torch.Tensor:
        """Add the gradient of a pack; return the sums of `LossSums`."""
        tokens = pack.loss
        if self._reference is not None and tokens.reference_logprobs_L is None:
            with torch.no_grad(), adapter_off(self._reference):
                reference_L, _ = self._logprobs(self._reference, pack)
            tokens = replace(tokens, reference_logprobs_L=reference_L)
        logprobs_L, entropy_L = self._logprobs(self._model, pack)
        if not self._objective.entropy_weight:
            entropy_L = entropy_L.detach()  # its gradient costs as much as that of the loss
        found = policy_loss(self._objective, logprobs_L, entropy_L, tokens)
        # FSDP averages the gradients of all ranks.
        (found.loss * (self._ranks.size if self._is_sharded else 1)).backward()
        if tokens.proximal_logprobs_L is None:
            self.mismatch.add(logprobs_L, tokens.old_logprobs_L, pack.fresh_L)
            self._first.append(replace(tokens, proximal_logprobs_L=logprobs_L.detach()))
        return torch.stack([one.detach().double() for one in vars(found).values()])

    def _logprobs(self, model: PreTrainedModel, pack: Pack) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-probability and the entropy of each sampled token, in nats."""
        labels_T = torch.full_like(pack.token_ids_T, _IGNORED)
        labels_T[pack.places_L] = pack.token_ids_T[pack.places_L]
        is_mixed = self._has_adapter and self._device.type == "cuda"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=is_mixed):
            found: Any = model(
                input_ids=pack.token_ids_T[None],
                position_ids=pack.position_ids_T[None],
                labels=labels_T[None],
                fused_lm_head=True,
                **attention.arguments(pack.bounds_S, pack.max_length),
            )
        before_L = pack.places_L - 1
        return found.log_probs[0, before_L], found.entropy[0, before_L]


class LeadingUpdater(Updater):
    """The updater of rank 0: each call reaches the updaters of the other ranks first."""

    def __init__(self, model: PreTrainedModel, config: GRPOConfig, ranks: Ranks) -> None:
        """Take a policy that was loaded from a folder: the other ranks load it too."""
        self._ranks = ranks
        recipe = self._same(Path(model.name_or_path or ""), config, recipe_of(model))
        with self._on_all("begin", recipe):
            super().__init__(model, config, ranks)

    def backward(self, packs: Sequence[Pack], *, again: bool = False) -> GradientFacts:
        own, *others = shares(packs, self._ranks.size)
        with self._on_all("backward_again" if again else "backward", [(one,) for one in others]):
            return super().backward(own, again=again)

    def measure(self, packs: Sequence[Pack]) -> None:
        own, *others = shares(packs, self._ranks.size)
        with self._on_all("measure", [(one,) for one in others]):
            super().measure(own)

    def apply(
        self, step: int, gradient: GradientFacts, mismatch: Mismatch | None = None
    ) -> UpdateFacts:
        with self._on_all("apply", self._same(step, gradient)):
            return super().apply(step, gradient, mismatch)

    def save(self, folder: Path) -> Future[None]:
        with self._on_all("save", self._same(folder)):
            return super().save(folder)

    def load(self, folder: Path) -> None:
        with self._on_all("load", self._same(folder)):
            super().load(folder)

    def fingerprints(self, dtype: torch.dtype) -> dict[str, int]:
        with self._on_all("fingerprints", self._same(dtype)):
            return super().fingerprints(dtype)

    def gather(self, names: Collection[str], dtype: torch.dtype | None = None) -> Tensors:
        names = list(names)
        with self._on_all("gather", self._same(names, dtype)):
            return super().gather(names, dtype)

    def _same(self, *arguments: object) -> list[tuple[object, ...]]:
        return [arguments] * (self._ranks.size - 1)

    @contextmanager
    def _on_all(self, method: str, arguments: Sequence[tuple[object, ...]]) -> Iterator[None]:
        """Let the other ranks call `method`, each with its arguments, next to the block."""
        self._ranks.send([None, *((method, one) for one in arguments)])
        with self._ranks.together():
            yield


def make_updater(model: PreTrainedModel, config: GRPOConfig, ranks: Ranks) -> Updater:
    """Return the updater of rank 0."""
    kind = LeadingUpdater if ranks.size > 1 else Updater
    return kind(model, config, ranks)


def _some(parameter: torch.Tensor) -> torch.Tensor:
    """Return some entries of this rank's part, evenly spread: at most twice `_COMPARED`."""
    own = own_part(parameter.detach()).flatten()
    return own[:: max(1, own.numel() // _COMPARED)]


def _moved(pack: Pack, device: torch.device) -> Pack:
    """Return the pack with all tensors on the device."""

    def move(value: Any) -> Any:
        return value.to(device) if isinstance(value, torch.Tensor) else value

    loss = replace(pack.loss, **{name: move(one) for name, one in vars(pack.loss).items()})
    own = {name: move(one) for name, one in vars(pack).items() if name != "loss"}
    return replace(pack, loss=loss, **own)
