"""GRPO: batch, check, update, publish, until the last step."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.telemetry.context import log_fields, note_log_fields
from assay_shared.types import FinishReason, PolicyVersion, ScoredGroup
from assay_trainer.config import RetentionConfig
from assay_trainer.curriculum.staged_order import FinishedStep
from assay_trainer.curriculum.state import Advance
from assay_trainer.events import StepEvent
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner import checkpoint
from assay_trainer.learner.batcher import GroupBatcher
from assay_trainer.learner.batching.group_batch import DiscardReason, GroupBatch, mean_of
from assay_trainer.learner.gradient_facts import over_updates
from assay_trainer.learner.mismatch import check_mismatch
from assay_trainer.learner.normalisation.overlong import Overlong
from assay_trainer.learner.packs import AnswerRow, Pack, pack_rows, rows, unweighted_rows
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.throughput import mfu
from assay_trainer.learner.updater import UpdateFacts, Updater, make_updater
from assay_trainer.learner.writing.checkpoint_writer import CheckpointWriter
from assay_trainer.rollouts.rollout_log import append_discarded, append_rollout
from assay_trainer.stop import Stop, Stopped
from assay_trainer.weights.publisher import WeightPublisher

Report = Callable[[StepEvent], None]


#: A smaller advantage is the arithmetic's.
_NO_ADVANTAGE = 1e-9


class NothingToLearn(Exception):
    """In all of the last groups, all rewards are equal."""

    def __init__(self, batch: GroupBatch, num_groups: int) -> None:
        rate = "unknown" if batch.pass_rate is None else f"{batch.pass_rate:.0%}"
        super().__init__(
            f"none of the last {num_groups} groups can teach anything: in each of them, all "
            f"rewards are equal; the pass rate is {rate}"
        )


@dataclass
class StepTimes:
    """Durations of the parts of a step, in seconds; see `StepEvent`."""

    rollouts_s: float = 0.0
    update_s: float = 0.0
    publish_s: float = 0.0
    checkpoint_wait_s: float = 0.0
    checkpoint_write_s: float | None = None


class GRPOStage:
    """A run of GRPO. `train` returns after the last step, or with nothing left to learn.

    A curriculum's stage with nothing to teach ends before its time, but for the last one.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        feed: GroupBatcher,
        publisher: WeightPublisher,
        config: GRPOConfig,
        *,
        retention: RetentionConfig,
        checkpoints: Path,
        resume_from: Path | None,
        rollouts_file: Path,
        report: Report,
        stop: Stop,
        ranks: Ranks,
        on_checkpoint: Callable[[int, PolicyVersion], None] = lambda step, served: None,
        on_served: Callable[[FinishedStep, PolicyVersion], None] = lambda done, served: None,
        on_skipped: Callable[[int, Advance], None] = lambda step, ended: None,
    ) -> None:
        """Store the parts.

        Args:
            on_checkpoint: gets each checkpoint's step and its served version.
            on_served: gets each finished step and its served version, before groups of that
                version are asked for.
            on_skipped: gets the end of a stage with nothing to teach, and the last step before.
        """
        self._on_skipped = on_skipped
        self._on_checkpoint = on_checkpoint
        self._on_served = on_served
        self._served: PolicyVersion | None = None
        self._model = model
        self._tokenizer = tokenizer
        self._feed = feed
        feed.discard_to(self._keep_discarded)
        self._step = 0
        self._publisher = publisher
        self._config = config
        self._retention = retention
        self._checkpoints = checkpoints
        self._resume_from = resume_from
        self._rollouts_file = rollouts_file
        self._report = report
        self._stop, self._ranks = stop, ranks
        #: Of the steps since the last checkpoint.
        self._pass_rates: list[float] = []
        #: Groups of a stage in a row that teach nothing.
        self._num_flat = 0
        self._flat_stage: str | None = None
        self._times, self._began_at = StepTimes(), 0.0

    def train(self) -> str | None:
        """Train the model in place, from the checkpoint `resume_from` if there is one.

        Returns the reason for an early end, or None after the last step.

        Raises:
            Stopped: a stop was requested; the checkpoint is written.
            Diverged: the loss or the gradient is not finite.
            NotWritten: a checkpoint could not be written.
            BudgetExceeded: too many groups could not be scored.
            Mismatched: inference does not sample from the trained weights.
            Conflict: most groups are of weights never published by this run.
        """
        updater = make_updater(self._model, self._config, self._ranks)
        done = 0
        if self._resume_from is not None:
            updater.load(self._resume_from)
            done = checkpoint.step_of(self._resume_from)
        with log_fields(step=done), CheckpointWriter(self._checkpoints, self._retention) as writer:
            self._publish(done)
            while done < self._config.steps and not self._feed.is_over:
                self._times, self._began_at = StepTimes(), time.monotonic()
                try:
                    batch, step_rows = self._next_batch(done + 1)
                except NothingToLearn as end:
                    if self._skip_stage(done, end):
                        continue
                    return self._told(end)
                except Stopped:
                    self._begin_checkpoint(writer, updater, done)
                    writer.release()
                    raise
                writer.check()
                stage = self._feed.stage
                facts = self._update(updater, step_rows, batch, done + 1)
                done += 1
                self._publish(done, self._feed.finish_step(done))
                if batch.pass_rate is not None:
                    self._pass_rates.append(batch.pass_rate)
                is_stopping = self._stop.asked
                if is_stopping or done % self._config.checkpoint_every == 0:
                    self._begin_checkpoint(writer, updater, done)
                self._times.checkpoint_write_s = writer.take_seconds()
                self._report_step(done, batch, facts, stage)
                writer.release()
                if is_stopping:
                    self._stop.check()
                if done % self._config.checkpoint_every == 0 and self._served is not None:
                    self._on_checkpoint(done, self._served)
        return None

    def _next_batch(self, step: int) -> tuple[GroupBatch, list[AnswerRow]]:
        """Wait for a batch with samples to learn, and keep its rollouts.

        Raises:
            NothingToLearn: no group of `max_flat_steps` full steps of a stage in a row can teach
                anything.
        """
        started, config, self._step = time.monotonic(), self._config, step
        if self._feed.stage != self._flat_stage:
            self._num_flat, self._flat_stage = 0, self._feed.stage
        num_flat_before = 0
        while True:
            batch = self._feed.next_batch()
            found = rows(batch.groups, config.normalise, Overlong.of(config))
            if any(abs(row.advantage) > _NO_ADVANTAGE for row in found):
                self._num_flat = 0
                break
            self._num_flat += batch.num_considered
            is_enough = self._num_flat >= config.max_flat_steps * config.max_groups_per_step
            if is_enough or (self._feed.is_over and not found):
                raise NothingToLearn(batch, self._num_flat)
            if found:
                break  # without replacement, such a step counts too
            num_flat_before += batch.num_played
            for scored in batch.groups:
                self._keep_discarded(DiscardReason.FLAT_STEP, scored)
        self._times.rollouts_s = time.monotonic() - started
        batch.num_trained, batch.num_flat_before = len(found), num_flat_before
        for scored in batch.groups:
            append_rollout(self._rollouts_file, scored, step, self._retention.rollouts_bytes)
        return batch, found

    def _skip_stage(self, step: int, end: NothingToLearn) -> bool:
        """End the curriculum's stage before its time; return False if no other follows."""
        skipped = None if self._feed.is_over else self._feed.skip_stage(str(end))
        if skipped is not None:
            self._on_skipped(step, skipped)
        return skipped is not None

    def _told(self, end: NothingToLearn) -> str | None:
        """Return why GRPO ends early; None if the order is over."""
        if self._feed.is_over:
            return None
        return str(end) if self._feed.stage is None else f"stage {self._feed.stage}: {end}"

    def _keep_discarded(self, reason: DiscardReason, scored: ScoredGroup) -> None:
        """Write a group that is not trained on to the run's folder."""
        most = self._retention.discarded_bytes
        if most:
            append_discarded(self._rollouts_file, scored, self._step, reason, most)

    def _update(
        self, updater: Updater, step_rows: list[AnswerRow], batch: GroupBatch, step: int
    ) -> UpdateFacts:
        """Apply the gradient of the rows, if inference samples from the trained weights."""
        started = time.monotonic()
        packs = self._packs(updater, step_rows)
        gradient = updater.backward(packs)
        if updater.mismatch.num_tokens == 0:
            # Workers are ahead: the batch has older versions alone. A waiting group tells as much.
            spot = self._feed.newest_ready()
            if spot is not None:
                updater.measure(self._packs(updater, unweighted_rows(spot)))
        found = updater.mismatch.summary()
        check_mismatch(found, self._config.max_mismatch_nats, batch.version)
        facts = [updater.apply(step, gradient, found)]
        for _ in range(1, self._config.updates_per_step):
            gradient = updater.backward(packs, again=True)
            facts.append(updater.apply(step, gradient, found))
        self._times.update_s = time.monotonic() - started
        gradient = over_updates([one.gradient for one in facts])
        return replace(facts[-1], gradient=gradient)

    def _packs(self, updater: Updater, step_rows: list[AnswerRow]) -> list[Pack]:
        config = self._config
        return pack_rows(step_rows, updater.objective, config.tokens_per_pack, self._feed.policy)

    def _publish(self, step: int, finished: FinishedStep | None = None) -> None:
        """Return once inference serves the weights after `step`."""
        started = time.monotonic()
        status = self._publisher.publish(self._model, self._tokenizer, self._config.sync)
        assert isinstance(status.policy, PolicyVersion)
        self._served = status.policy
        note_log_fields(step=step + 1)  # what is sent from here on is for the next step
        self._times.publish_s = time.monotonic() - started
        if finished is not None:
            self._on_served(finished, status.policy)
        self._feed.serve(status.policy)

    def _begin_checkpoint(self, writer: CheckpointWriter, updater: Updater, step: int) -> None:
        """Begin the checkpoint of the last finished step, if there is one."""
        if step == 0:
            return
        started = time.monotonic()
        rates = self._pass_rates
        pass_rate = sum(rates) / len(rates) if rates else None
        writer.begin(updater, step, self._feed.state(), pass_rate)
        self._pass_rates = []
        self._times.checkpoint_wait_s = time.monotonic() - started

    def _report_step(
        self,
        step: int,
        batch: GroupBatch,
        facts: UpdateFacts,
        stage: str | None,
    ) -> None:
        step_s = time.monotonic() - self._began_at
        answers = batch.answers  # also those that `overlong` filters
        lengths = [one.num_sampled for one in answers]
        ends = [one.finish_reason for one in answers]
        gradient = facts.gradient
        tokens_per_s = gradient.num_read / self._times.update_s
        self._report(
            StepEvent(
                step=step,
                **batch.facts(self._config.groups_per_step),
                groups_per_s=batch.num_played / step_s,
                step_s=step_s,
                **vars(self._times),
                loss=gradient.loss,
                grad_norm=gradient.grad_norm,
                entropy=gradient.entropy,
                kl=gradient.kl,
                clipped_low=gradient.clipped_low,
                clipped_high=gradient.clipped_high,
                kl_gradient_share=gradient.kl_gradient_share,
                masked_share=gradient.masked_share,
                truncated_weight_share=gradient.truncated_weight_share,
                importance_weight_mean=gradient.importance_weight_mean,
                token_weight_spread=gradient.token_weight_spread,
                learning_rate=facts.learning_rate,
                moved_share=facts.moved_share,
                num_tokens=gradient.num_read // self._config.updates_per_step,
                tokens_per_s=tokens_per_s,
                mfu=mfu(self._model, tokens_per_s, self._ranks),
                length_mean=mean_of(lengths),
                length_max=max(lengths, default=None),
                truncated_share=mean_of([int(end is FinishReason.LENGTH) for end in ends]),
                memory_bytes=facts.memory_bytes,
                recomputed_layers=facts.recomputed_layers,
                curriculum_stage=stage,
                mismatch=facts.mismatch,
            )
        )
