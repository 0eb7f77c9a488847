"""What a step does under some settings: its gradients added up, and the change of the weights.

Everything goes through the updater of training. A step of several updates is followed to its end:
a clip acts from the second update on.

Shapes: W trained weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import torch

from assay_trainer.ablation.decomposition.probed_updater import ProbedUpdater, Snapshot

#: Takes a step of training; it calls back with each update's gradient before it is applied.
TakeStep = Callable[[ProbedUpdater, Callable[[], None]], None]


@dataclass(frozen=True)
class StepEffect:
    """A step: the sum of its gradients as the optimiser gets them, and the weights' change."""

    gradient_W: torch.Tensor
    change_W: torch.Tensor


@dataclass(frozen=True)
class GradientParts:
    """g' = scale g + r with r orthogonal to g; the norms of g' - g over g, and of r over g'."""

    difference: float
    scale: float
    direction: float


def effect_of(updater: ProbedUpdater, start: Snapshot, take_step: TakeStep) -> StepEffect:
    """Return the effect of a step from the weights and states in `start`."""
    updater.go_back(start)
    before_W = updater.weights_W()
    sums: list[torch.Tensor] = []

    def add() -> None:
        gradient_W = updater.gradient_W()
        if sums:
            sums[0] += gradient_W
        else:
            sums.append(gradient_W)

    take_step(updater, add)
    total_W = sums[0] if sums else torch.zeros_like(before_W)
    return StepEffect(total_W, updater.weights_W() - before_W)


def parts(old_W: torch.Tensor, new_W: torch.Tensor) -> GradientParts:
    """Return the new vector's parts along and across the old one."""
    old, new = old_W.double(), new_W.double()
    square, square_new = float(old @ old), float(new @ new)
    if square == 0.0 or square_new == 0.0:
        same = square == square_new
        return GradientParts(0.0 if same else 1.0, 1.0 if same else 0.0, 0.0 if same else 1.0)
    scale = float(old @ new) / square
    gap, across = new - old, new - scale * old
    return GradientParts(
        difference=sqrt(float(gap @ gap) / square),
        scale=scale,
        direction=sqrt(float(across @ across) / square_new),
    )
