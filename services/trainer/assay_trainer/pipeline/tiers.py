"""Tiers of sets, measured at the checkpoints of a run and at its end, and the best checkpoint.

SFT and DPO do not sample: inference serves their checkpoint and measures it while they train on.
GRPO waits, as its own samples come from the same engine.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from assay_shared.errors import CallerError, ConfigError, DatasetError, RoleError
from assay_shared.settings.run_file import parse_config
from assay_shared.types import PolicyVersion, Role, Task
from assay_shared.weights import checkpoint as weights
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.evaluate.answers import sources
from assay_trainer.evaluate.evaluation import EvaluationOrder, evaluate
from assay_trainer.evaluate.playing.set_play import SetProgress
from assay_trainer.evaluate.policy.checkpoints import servable_folder
from assay_trainer.evaluate.policy.places import PolicyPlace, checkpoints_of
from assay_trainer.evaluate.policy.services import check_rubrics
from assay_trainer.evaluate.policy.serving import publish_folder
from assay_trainer.evaluate.reporting.report import headline
from assay_trainer.evaluate.sets import OpenSet, check_sets, made_set, refuse_training_rows
from assay_trainer.evaluation.best_checkpoint import (
    BestCheckpoint,
    MeasuredCheckpoint,
    read_best,
    write_best,
)
from assay_trainer.evaluation.metrics.set_metrics import SetMetrics, StoredEstimate, StratumMetrics
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.pipeline.context import RunContext
from assay_trainer.table_source import HubSource
from assay_trainer.tier_config import TierConfig

#: Runs of all seeds measure the same part of a set, so they can be compared.
_LIMIT_SEED = 0


def protocol_of_tier(tier: TierConfig) -> Protocol:
    """Return a tier's protocol.

    Raises:
        ConfigError: a field cannot be used, or the kind needs what a run does not have.
    """
    where = f"evaluation.tiers {tier.name}.protocol"
    protocol = parse_config(Protocol, dict(tier.protocol), source=where)
    if protocol.kind is ProtocolKind.LIKELIHOOD and tier.at != "end":
        raise ConfigError("likelihood is measured at the end alone", field=where)
    return protocol


def field_of_set(tier: TierConfig, name: str) -> str:
    """Return the field of the run file that has a tier's set."""
    return f"evaluation.tiers {tier.name}.sets.{name}"


class Tiers:
    """The tiers of a run. `begun` opens all sets, and keeps all but those of the end."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._config = run.config.evaluation
        self._sets: dict[str, list[OpenSet]] = {}
        #: The first task of each rubric of a set, by the set's field.
        self._of_rubrics: dict[str, list[Task]] = {}
        self._pool = ThreadPoolExecutor(1, "tiers")
        self._in_flight: Future[None] | None = None

    @classmethod
    @contextmanager
    def begun(cls, run: RunContext) -> Iterator["Tiers"]:
        """Yield the tiers of a run; at the end of the block, no evaluation is in flight.

        Raises:
            RoleError: a set measured at checkpoints has rows for tests.
            DatasetError: a set cannot be read.
            ConfigError: a protocol cannot be used.
        """
        tiers = cls(run)
        for tier in run.config.evaluation.tiers:
            opened = tiers._opened(tier)
            if tier.at != "end":
                tiers._sets[tier.name] = opened
        try:
            yield tiers
        finally:
            tiers._pool.shutdown(wait=True, cancel_futures=True)

    def _opened(self, tier: TierConfig) -> list[OpenSet]:
        """Return a tier's sets; rows for tests are refused except at the end."""
        protocol = protocol_of_tier(tier)
        found = []
        for name, source in tier.sets.items():
            if isinstance(source, HubSource):
                raise ConfigError(
                    f"{name} is a set of a hub, whose rows could change",
                    field=field_of_set(tier, name),
                    hint="import it with `assay data import` first",
                )
            try:
                tasks = open_dataset(source, DatasetPurpose.EVALUATE, self._run.settings.data).tasks
            except CallerError as error:
                told = f"{error.field}: {error.message}" if error.field else error.message
                field = field_of_set(tier, name)
                raise type(error)(told, field=field, hint=error.hint) from None
            if tier.at != "end" and any(task.role is Role.TEST for task in tasks):
                raise RoleError(
                    f"{name} has rows for tests alone: no checkpoint is measured or chosen by them",
                    field=field_of_set(tier, name),
                    hint="use validation rows, or a tier with at: end",
                )
            shown = str(getattr(source, "path", None) or source.kind)
            refuse_training_rows(tasks, name, field_of_set(tier, name))
            found.append(made_set(name, shown, tasks, limit=tier.limit, limit_seed=_LIMIT_SEED))
        check_sets(found, protocol)
        if protocol.kind is not ProtocolKind.LIKELIHOOD:
            for one in found:
                first = {task.rubric: task for task in reversed(one.tasks)}
                self._of_rubrics[field_of_set(tier, one.facts.name)] = list(first.values())
        return found

    def check_rubrics(self) -> None:
        """Ask the reward service for the rubrics of all sets, before anything is trained.

        Raises:
            InvalidInput: it does not have one; names the field of the set, and its first task.
            AssayError: the service does not answer.
        """
        if self._of_rubrics:
            check_rubrics(self._of_rubrics, self._run.settings)

    def after_checkpoint(self, stage: str, step: int) -> None:
        """Begin to measure a checkpoint on disk, once the one before is measured."""
        self.wait()
        due = [one for one in self._config.tiers if one.is_due(step)]
        if due:
            self._in_flight = self._pool.submit(self._measure_folder, stage, step, due)

    def at_version(self, stage: str, step: int, version: PolicyVersion) -> None:
        """Measure the served version, which is that of a checkpoint."""
        for tier in self._config.tiers:
            if tier.is_due(step):
                self._evaluate(tier, stage, step, version, self._sets[tier.name])

    def wait(self) -> None:
        """Wait for the evaluation in flight, and raise its error."""
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is not None:
            in_flight.result()

    def best_of(self, stage: str) -> PolicyPlace | None:
        """Return the best checkpoint of a finished stage; None if none was measured.

        Raises:
            DatasetError: the run keeps it no longer.
        """
        self.wait()
        self.catch_up(stage)
        best = read_best(self._run.folder.path)
        if self._config.best is None or best is None or best.stage != stage:
            return None
        kept = {one.step: one for one in checkpoints_of(self._run.folder) if one.stage == stage}
        if best.step not in kept:
            raise DatasetError(f"{best.folder}, the best checkpoint, is not there any more")
        self._run.record(
            "best_checkpoint_used",
            stage=stage,
            step=best.step,
            set=best.set,
            metric=best.metric,
            value=best.value,
        )
        return kept[best.step]

    def catch_up(self, stage: str) -> None:
        """Measure the kept checkpoints of a stage whose measurement was interrupted.

        A resumed stage calls it before it trains, because new checkpoints replace old ones.
        """
        for place in checkpoints_of(self._run.folder):
            step = place.step
            if place.stage != stage or step is None:
                continue
            due = [
                tier
                for tier in self._config.tiers
                if tier.is_due(step) and not self._is_finished(tier, stage, step)
            ]
            if due:
                self._measure_folder(stage, step, due)

    def _is_finished(self, tier: TierConfig, stage: str, step: int) -> bool:
        folder = EvaluationFolder(self._folder(tier, stage, step))
        return folder.exists and folder.read_record().finished is not None

    def at_end(self, version: PolicyVersion) -> None:
        """Measure the sets of the end, and record once that rows for tests are measured."""
        for tier in self._config.tiers:
            if tier.at != "end":
                continue
            is_new = not EvaluationFolder(self._folder(tier, "end", None)).exists
            opened = self._opened(tier)
            for one in opened:
                if is_new and one.facts.roles.get(Role.TEST):
                    num = one.facts.roles[Role.TEST]
                    self._run.record("test_set_opened", tier=tier.name, set=one.name, num_tasks=num)
            self._evaluate(tier, "end", None, version, opened)

    def _measure_folder(self, stage: str, step: int, due: Sequence[TierConfig]) -> None:
        (place,) = [
            one
            for one in checkpoints_of(self._run.folder)
            if (one.stage, one.step) == (stage, step)
        ]
        with self._run.scratch() as scratch:
            folder = servable_folder(place, scratch)
            digest = weights.digest(folder)
            version = asyncio.run(publish_folder(folder, digest, self._run.settings))
            for tier in due:
                self._evaluate(tier, stage, step, version, self._sets[tier.name])

    def _folder(self, tier: TierConfig, stage: str, step: int | None) -> Path:
        label = stage if step is None else f"{stage}-{step}"
        return self._run.folder.path / "evaluation" / "tiers" / tier.name / label

    def _evaluate(
        self,
        tier: TierConfig,
        stage: str,
        step: int | None,
        version: PolicyVersion,
        sets: Sequence[OpenSet],
    ) -> None:
        """Evaluate a served version on a tier's sets, and record the results."""
        output, protocol = self._folder(tier, stage, step), protocol_of_tier(tier)
        name = f"{self._run.name}:{stage if step is None else step}"
        order = EvaluationOrder(
            policy=EvaluatedPolicy(kind="run", name=name, digest=version.digest, step=step),
            protocol=protocol,
            sets=sets,
            output=output,
            concurrency=self._config.groups_in_flight,
            max_failed=self._config.max_failed_groups,
        )

        def check(set_name: str, progress: SetProgress) -> None:
            self._run.stop.check()

        opening = sources.of_service(self._run.settings, version, protocol)
        found = asyncio.run(evaluate(order, opening, self._run.settings, check))
        for set_name, metrics in found.items():
            result = headline(metrics.overall)
            self._run.record(
                "tier_evaluated",
                tier=tier.name,
                set=set_name,
                stage=stage,
                step=step,
                result=None if result is None else result.model_dump(),
                num_failed=metrics.overall.num_failed,
                folder=str(output.relative_to(self._run.folder.path)),
            )
            if step is not None:
                self._note_best(stage, step, set_name, metrics)

    def _note_best(self, stage: str, step: int, set_name: str, metrics: SetMetrics) -> None:
        """Write best_checkpoint.json if the set is the one that chooses."""
        chosen = self._config.best
        if chosen is None or chosen.set != set_name:
            return
        value = _value_of(metrics.overall, chosen.metric)
        if value is None:
            return
        folder = f"checkpoints/{stage}/checkpoint-{step}"
        found = MeasuredCheckpoint(
            stage=stage,
            step=step,
            folder=folder,
            value=value.value,
            low=value.low if value.low is not None else value.value,
            high=value.high if value.high is not None else value.value,
        )
        before = read_best(self._run.folder.path)
        measured = [one for one in (before.measured if before else ()) if one.folder != folder]
        measured.append(found)
        of_stage = [one for one in measured if one.stage == stage]
        best = max(of_stage, key=lambda one: (one.value, one.step or 0))
        write_best(
            self._run.folder.path,
            BestCheckpoint(
                **best.model_dump(),
                set=chosen.set,
                metric=chosen.metric,
                measured=tuple(measured),
            ),
        )


def _value_of(found: StratumMetrics, metric: str) -> StoredEstimate | None:
    """Return the value of a metric by its name; None if the set does not have it."""
    if metric in ("execution_success", "pass_ratio"):
        return None if found.code is None else getattr(found.code, metric)
    value: StoredEstimate | None = getattr(found, metric)
    return value
