"""An attempt at a stage by TRL's trainer: progress, checkpoints, a stop, and a finite loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from assay_shared.errors import InvalidInput
from assay_trainer.learner import checkpoint
from assay_trainer.learner.retention import forget_checkpoints
from assay_trainer.stop import Stop

OnCheckpoint = Callable[[int], None]


class Diverged(InvalidInput):
    """The loss or the gradient is not finite under the stage's settings.

    Training further would hide it.
    """

    @classmethod
    def of(cls, name: str, value: float, where: str) -> Self:
        """Return the error about a metric's value at a place."""
        return cls(
            f"{name} is {value} {where}",
            hint="begin a run with a smaller learning_rate of this stage; if the first loss is not "
            "finite, check the policy's weights",
        )


class ProgressCallback(TrainerCallback):
    """Hands each step's metrics on. Raises Diverged when they are not finite."""

    def __init__(self, on_step: Callable[[int, dict[str, float]], None]) -> None:
        self._on_step = on_step

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: object,
    ) -> None:
        metrics = {k: v for k, v in (logs or {}).items() if isinstance(v, int | float)}
        if "loss" not in metrics:
            return  # the summary at the end
        for name in ("loss", "grad_norm"):
            if not math.isfinite(metrics.get(name, 0.0)):
                raise Diverged.of(name, metrics[name], f"at step {state.global_step}")
        self._on_step(state.global_step, metrics)


class StopBetweenSteps(TrainerCallback):
    """Ends training after a step once a stop is asked for, with a checkpoint."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> TrainerControl:
        if self._stop.asked:
            control.should_save = True
            control.should_training_stop = True
        return control


class CompleteCheckpoints(TrainerCallback):
    """Marks each checkpoint as whole once TRL has written its part, and deletes old ones."""

    def __init__(self, checkpoints: Path, keep: int, on_checkpoint: OnCheckpoint) -> None:
        self._checkpoints = checkpoints
        self._keep = keep
        self._on_checkpoint = on_checkpoint

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> None:
        checkpoint.complete(self._checkpoints, state.global_step)
        self._on_checkpoint(state.global_step)
        forget_checkpoints(self._checkpoints, self._keep, keep_best=False)


@dataclass(frozen=True)
class StageAttempt:
    """One attempt at a stage: from its start or a checkpoint to its end or a stop."""

    seed: int
    checkpoints: Path
    stop: Stop
    keep_checkpoints: int = 2
    resume_from: Path | None = None
    #: Gets the step of each whole checkpoint, before older ones are deleted.
    on_checkpoint: OnCheckpoint = lambda step: None

    def callbacks(self, on_step: Callable[[int, dict[str, float]], None]) -> list[TrainerCallback]:
        """Return the trainer's callbacks; `on_step` gets each step with its metrics."""
        return [
            ProgressCallback(on_step),
            StopBetweenSteps(self.stop),
            CompleteCheckpoints(self.checkpoints, self.keep_checkpoints, self.on_checkpoint),
        ]

    def train(self, trainer: Trainer, num_steps: int) -> None:
        """Train to the end of the stage.

        From a checkpoint of its last step there is nothing to do but load the weights: the trainer
        would do another step, since it looks for the end after a step.

        Raises:
            Stopped: a stop was requested; the checkpoint is written.
            Diverged: the loss is not finite.
        """
        folder = self.resume_from
        if folder is not None and checkpoint.step_of(folder) >= num_steps:
            trainer._load_from_checkpoint(str(folder))
        else:
            trainer.train(resume_from_checkpoint=None if folder is None else str(folder))
        self.stop.check()


def step_facts(step: int, metrics: dict[str, float]) -> dict[str, Any]:
    """Return the fields that the steps of both stages have."""
    on_gpu = torch.cuda.is_available()
    return {name: metrics[name] for name in ("epoch", "loss", "learning_rate", "grad_norm")} | {
        "step": step,
        "memory_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
    }
