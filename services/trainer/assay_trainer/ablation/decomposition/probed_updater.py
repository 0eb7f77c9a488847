"""The updater of training, with its state and its gradient in the open.

Shapes: W trained weights.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch

from assay_trainer.learner.network.sharding import close, own_part
from assay_trainer.learner.packs import Pack
from assay_trainer.learner.updater import Updater
from assay_trainer.learner.updater import _moved as moved_to


@dataclass(frozen=True)
class Snapshot:
    """Trained weights and the optimiser's states at one moment."""

    weights: list[torch.Tensor]
    optimiser: dict[str, Any]


class ProbedUpdater(Updater):
    """An updater of one process that goes back, and tells its gradient."""

    def snapshot(self) -> Snapshot:
        """Return a copy of the weights and the optimiser's states, in memory."""
        weights = [one.detach().clone() for one in self._parameters]
        return Snapshot(weights, deepcopy(self._optimiser.state_dict()))

    def go_back(self, snapshot: Snapshot) -> None:
        """Take the weights and states of a snapshot, also of an updater with other settings."""
        self._take(snapshot.weights)
        self._optimiser.load_state_dict(deepcopy(snapshot.optimiser))

    def follow(self, other: "ProbedUpdater") -> None:
        """Take the present weights of another updater."""
        self._take([one.detach() for one in other._parameters])

    def _take(self, weights: Sequence[torch.Tensor]) -> None:
        with torch.no_grad():
            for own, kept in zip(self._parameters, weights, strict=True):
                own.copy_(kept)

    def weights_W(self) -> torch.Tensor:
        """Return a copy of the trained weights as one vector."""
        return torch.cat([own_part(one.detach()).flatten() for one in self._parameters])

    def gradient_W(self) -> torch.Tensor:
        """Return a copy of the gradient that `backward` left, as one vector."""
        parts = [
            torch.zeros_like(one) if one.grad is None else one.grad for one in self._parameters
        ]
        return torch.cat([own_part(one.detach()).flatten() for one in parts])

    def on_policy(self, packs: Sequence[Pack]) -> list[Pack]:
        """Return the packs with this model's log-probabilities in place of the engine's."""
        found = []
        for pack in packs:
            moved = moved_to(pack, self._device)
            with torch.no_grad():
                logprobs_L, _ = self._logprobs(self._model, moved)
            found.append(replace(moved, loss=replace(moved.loss, old_logprobs_L=logprobs_L)))
        close(self._model)
        return found
