"""The reinforcement stage: portions in, updates out, new weights served after each of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.telemetry.context import log_fields, note_log_fields
from assay_shared.types import PolicyVersion
from assay_trainer.config import GRPOConfig, RetentionConfig
from assay_trainer.events import Mismatch, StepEvent
from assay_trainer.learner import checkpoint
from assay_trainer.learner.batcher import GroupBatch, GroupBatcher
from assay_trainer.learner.callbacks import (
    AfterSave,
    AfterStep,
    BeforeUpdate,
    ProgressCallback,
    StopBetweenSteps,
)
from assay_trainer.learner.mismatch import check_mismatch
from assay_trainer.learner.retention import forget_checkpoints
from assay_trainer.learner.tensors import TensorBatch, collate, rows, unweighted_rows
from assay_trainer.rollouts.rollout_log import append_rollout
from assay_trainer.stop import Stop, Stopped
from assay_trainer.weights.publisher import WeightPublisher

if TYPE_CHECKING:  # only a type: TRL takes seconds to import
    from assay_trainer.learner.trl_backend import ExternalRolloutTrainer

Report = Callable[[StepEvent], None]


class NothingToLearn(Exception):
    """No group of a whole step can teach anything."""

    def __init__(self, portion: GroupBatch) -> None:
        rate = "unknown" if portion.pass_rate is None else f"{portion.pass_rate:.0%}"
        super().__init__(
            f"none of {portion.num_played} groups can teach anything: in "
            f"{portion.num_without_signal} all rewards are equal, {portion.refused.total()} are of "
            f"weights that are too old or unknown; "
            f"the pass rate is {rate}"
        )


@dataclass
class Times:
    """Durations of the parts of a step."""

    rollouts_s: float = 0.0
    publish_s: float = 0.0
    ended_at: float = 0.0


class GRPOStage:
    """A run of GRPO. `train` returns after the last step, or with nothing left to learn."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        feed: GroupBatcher,
        publisher: WeightPublisher,
        config: GRPOConfig,
        *,
        retention: RetentionConfig,
        seed: int,
        checkpoints: Path,
        resume_from: Path | None,
        rollouts_file: Path,
        report: Report,
        stop: Stop,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._feed = feed
        self._publisher = publisher
        self._config = config
        self._retention = retention
        #: Of the steps since the last checkpoint.
        self._pass_rates: list[float] = []
        self._seed = seed
        self._checkpoints = checkpoints
        self._rollouts_file = rollouts_file
        self._report = report
        self._stop = stop
        self._portion = GroupBatch(0)
        self._times = Times()
        self._mismatch: Mismatch | None = None
        self._resume_from = resume_from
        self._first_step = checkpoint.step_of(resume_from) if resume_from else 0
        self._step = self._first_step + 1

    def train(self) -> str | None:
        """Train the model in place, from the checkpoint `resume_from` if there is one.

        Returns the reason for an early end, or None after the last step.

        Raises:
            Stopped: a stop was requested; the checkpoint is written.
            Diverged: the loss or the gradient is not finite.
            BudgetExceeded: too many groups could not be scored.
            Mismatched: inference does not sample from the trained weights.
            Conflict: most groups are of weights never published by this run.
        """
        from assay_trainer.learner.trl_backend import make_grpo_trainer

        trainer = make_grpo_trainer(
            self._model,
            self._tokenizer,
            self._next_batch,
            self._config,
            seed=self._seed,
            folder=self._checkpoints,
            callbacks=[
                AfterStep(self._publish),
                ProgressCallback(self._report_step),
                StopBetweenSteps(self._stop),
                AfterSave(self._complete_checkpoint),
            ],
        )
        trainer.add_callback(BeforeUpdate(lambda: self._check_mismatch(trainer)))
        resume_from = str(self._resume_from) if self._resume_from else None
        self._times = Times(ended_at=time.monotonic())
        try:
            with log_fields(step=self._first_step):
                trainer.train(resume_from_checkpoint=resume_from)
        except NothingToLearn as end:
            return str(end)
        except Stopped:
            trainer.save_now()
            raise
        self._stop.check()
        return None

    def _next_batch(self) -> TensorBatch:
        from assay_trainer.learner.trl_backend import num_micro_batches

        if self._feed.policy is None:
            # TRL loads a checkpoint only inside `train`: now the model is what it should be.
            self._publish(self._first_step)
        started = time.monotonic()
        self._portion = self._feed.next_batch()
        self._times.rollouts_s = time.monotonic() - started
        if not self._portion.groups:
            raise NothingToLearn(self._portion)
        for scored in self._portion.groups:
            append_rollout(self._rollouts_file, scored, self._step, self._retention.rollouts_bytes)
        batch_rows = rows(self._portion.groups, self._config.normalise)
        return collate(
            batch_rows,
            self._pad_id,
            multiple_of=num_micro_batches(self._config),
            policy=self._feed.policy,
        )

    @property
    def _pad_id(self) -> int:
        return int(self._tokenizer.pad_token_id)

    def _check_mismatch(self, trainer: "ExternalRolloutTrainer") -> None:
        """Compare log-probabilities of the batch's current-version tokens before the update.

        If workers are so far ahead that the batch has only older versions, a group of the current
        version is ready: a forward pass over it gives the same information.
        """
        if trainer.mismatch.num_tokens == 0:
            spot = self._feed.newest_ready()
            if spot is not None:
                rows_of_one = unweighted_rows(spot)
                trainer.measure(collate(rows_of_one, self._pad_id, policy=self._feed.policy))
        self._mismatch = trainer.mismatch.summary()
        check_mismatch(self._mismatch, self._config.max_mismatch_nats, self._portion.version)

    def _publish(self, step: int) -> None:
        started = time.monotonic()
        status = self._publisher.publish(self._model, self._tokenizer, self._config.sync)
        assert isinstance(status.policy, PolicyVersion)
        self._step = step + 1
        note_log_fields(step=self._step)  # what is sent from here on is for the next step
        self._feed.serve(status.policy)
        self._times.publish_s = time.monotonic() - started

    def _complete_checkpoint(self, step: int) -> None:
        rates, keep = self._pass_rates, self._retention
        pass_rate = sum(rates) / len(rates) if rates else None
        checkpoint.complete(self._checkpoints, step, self._feed.state(), pass_rate)
        self._pass_rates = []
        forget_checkpoints(self._checkpoints, keep.checkpoints, keep_best=keep.best)

    def _report_step(self, step: int, metrics: dict[str, float]) -> None:
        now = time.monotonic()
        portion, times = self._portion, self._times
        if portion.pass_rate is not None:
            self._pass_rates.append(portion.pass_rate)
        took_s = now - times.ended_at
        times.ended_at = now
        self._report(
            StepEvent(
                step=step,
                version=portion.version,
                reward=portion.reward_mean,
                pass_rate=portion.pass_rate,
                num_groups=len(portion.groups),
                num_played=portion.num_played,
                num_without_signal=portion.num_without_signal,
                num_set_aside=portion.num_set_aside,
                refused=dict(portion.refused),
                failures=dict(portion.failures),
                outcomes=dict(portion.outcomes),
                staleness_mean=_mean(portion.staleness),
                groups_per_s=portion.num_played / took_s,
                step_s=took_s,
                rollouts_s=times.rollouts_s,
                publish_s=times.publish_s,
                update_s=max(0.0, took_s - times.rollouts_s - times.publish_s),
                loss=metrics["loss"],
                grad_norm=metrics["grad_norm"],
                entropy=metrics["entropy"],
                clip_fraction=metrics.get("clip_ratio/region_mean", 0.0),
                mismatch=self._mismatch,
            )
        )


def _mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None
