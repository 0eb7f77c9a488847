"""A run from its data to its report. Each stage leaves a file, and is skipped if it is there.

data -> leaks -> validate -> policy -> sft -> evaluate "before" -> grpo
-> evaluate "after" -> report
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue
from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.clients import InferenceClient, RetryBudget, Timeouts
from assay_shared.clients.http import NO_RETRY
from assay_shared.runs.queue import make_celery
from assay_shared.runs.run_folder import Event, RunFolder, write_atomically
from assay_shared.settings.environment import ServiceSettings
from assay_shared.telemetry.context import log_fields
from assay_shared.types import PolicyVersion
from assay_trainer.checks.leaks.check import check_leaks
from assay_trainer.checks.rewards import known_rubrics, prove
from assay_trainer.config import RunConfig, SFTConfig, Source
from assay_trainer.data.dataset import DatasetPurpose
from assay_trainer.data.run_data import RunSet, open_set
from assay_trainer.data.tokenization import answered_token_ids, too_long
from assay_trainer.evaluation.evaluator import Evaluator, TaskEvaluation
from assay_trainer.evaluation.report import write_report
from assay_trainer.events import Evaluated, StepEvent, TaskSetAside
from assay_trainer.learner import checkpoint
from assay_trainer.learner.batcher import BatcherState, GroupBatcher, TaskOrder
from assay_trainer.learner.grpo import GRPOStage
from assay_trainer.learner.model import create_policy, load_policy
from assay_trainer.learner.sft import train_sft
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.rollout_log import mark_superseded
from assay_trainer.rollouts.set_aside import without_rubric
from assay_trainer.rollouts.store import GroupStore
from assay_trainer.stop import Stop
from assay_trainer.weights.direct import DirectTransfer
from assay_trainer.weights.folder import publish_policy
from assay_trainer.weights.publisher import WeightPublisher

_SFT_PROGRESS_EVERY = 10
_EVALUATION_PROGRESS = 24
_RETRY = RetryBudget(attempts=40, total_s=60.0)
#: A first announcement starts an engine, a later one waits for what is being drawn.
_ANNOUNCE = Timeouts(read_s=1500.0, total_s=1500.0)
_PROBE_TOKENS = 128


class Pipeline:
    """One run in its folder. `execute` may be called again after any end but the last."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        settings: ServiceSettings,
        stop: Stop,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._folder = folder
        self._config = config
        self._settings = settings
        self._stop = stop
        self._on_event = on_event
        self._status = folder.read_status()
        self._store = GroupStore(settings.redis_url)
        self._train: RunSet
        self._shown: RunSet
        self._held_out: RunSet
        self._publisher: WeightPublisher | None = None

    def execute(self) -> None:
        """Do all stages that are not done. The caller holds the run: see `endings.ending`.

        Raises:
            Stopped: a stop was asked for.
            AssayError: the run failed; what is done stays done.
        """
        try:
            self._set_status(state="running")
            with log_fields(run=self._folder.path.name):
                facts = self._stages()
            gain = facts["differences"].get("pass_at_1")
            self._record("run_finished", report=str(self._folder.path / "report.html"), gain=gain)
            self._set_status(state="finished")
        finally:
            self._store.close()

    def _stages(self) -> dict[str, Any]:
        """Returns what the report says."""
        config = self._config
        self._store.check()
        with self._stage("data"):
            self._open_data()
        self._check_leaks()
        self._validate()
        with self._stage("policy"):
            model, tokenizer = self._model("initial", self._initial_policy)
            self._set_aside_too_long(model, tokenizer)
            self._publisher = self._make_publisher(tokenizer)
        if config.sft is not None:
            sft = config.sft
            with self._stage("sft", sft.steps):
                model, tokenizer = self._model("sft", lambda: self._sft(model, tokenizer, sft))
        evaluations = [self._evaluate("before", model, tokenizer)]
        if config.grpo is not None:
            with self._stage("grpo", config.grpo.steps):
                model, tokenizer = self._model("grpo", lambda: self._grpo(model, tokenizer))
            evaluations.append(self._evaluate("after", model, tokenizer))
        with self._stage("report"):
            return write_report(self._folder, config, evaluations)

    def _open_data(self) -> None:
        data = self._config.data
        self._train = self._open_set("training", data.train, DatasetPurpose.TRAIN)
        shown = data.demonstrations
        self._shown = (
            self._open_set("demonstration", shown, DatasetPurpose.TRAIN) if shown else self._train
        )
        self._held_out = self._open_set("held-out", data.held_out, DatasetPurpose.EVALUATE)
        train, held_out = self._train.dataset.tasks, self._held_out.dataset.tasks
        lines = [task.model_dump_json() for task in train + held_out]
        write_atomically(self._folder.tasks, "\n".join(lines) + "\n")
        self._record("data", num_train=len(train), num_held_out=len(held_out))

    def _open_set(self, name: str, source: Source, purpose: DatasetPurpose) -> RunSet:
        share, folder = self._config.data.max_set_aside_share, self._settings.data
        return open_set(name, source, purpose, folder, share, self._report_set_aside)

    def _set_aside_too_long(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        """Set aside the tasks whose prompt does not fit the policy's context."""
        context = getattr(model.config, "max_position_embeddings", None)
        if context is None:
            return
        config = self._config
        sets = [(self._held_out, config.evaluation.max_tokens)]
        if config.grpo is not None:
            sets.append((self._train, config.grpo.max_tokens))
        for one, max_tokens in sets:
            found = too_long(one.usable.tasks, tokenizer, context, max_tokens)
            one.set_aside.add_all(found)

    def _check_leaks(self) -> None:
        """Look for held-out tasks in what is trained on, once.

        Raises:
            DatasetError: too many of them are there.
        """
        config, path = self._config.data.leaks, self._folder.path / "leaks.json"
        if config is None or path.exists():
            return
        shown = self._shown.usable.tasks if self._shown is not self._train else []
        training = self._train.usable.tasks + shown
        with self._stage("leaks"):
            held_out = self._held_out.usable.tasks
            found = check_leaks(training, held_out, config, self._config.seed)
            self._record("leaks_checked", **found.counts())
            found.refuse(config.max_share)
            found.write(path)

    def _validate(self) -> None:
        """Prove the rewards of some tasks, once.

        Raises:
            DatasetError: too many of them cannot be trusted.
        """
        config, path = self._config.data.validation, self._folder.path / "validation.jsonl"
        if config is None or path.exists():
            return
        both = (self._train, self._held_out)
        num_tasks = sum(min(config.sample, len(one.usable.tasks)) for one in both)
        with self._stage("validate", num_tasks):
            rubrics = known_rubrics(self._settings)
            for one in both:
                one.set_aside.add_all(without_rubric(one.usable.tasks, rubrics))
            sets = [one.usable.tasks for one in both]
            found = prove(sets, config, self._settings, self._config.seed)
            self._record("validated", **found.counts())
            found.refuse(config.max_bad_share)
            found.write(path)

    def _model(
        self,
        name: str,
        make: Callable[[], tuple[PreTrainedModel, PreTrainedTokenizerBase]],
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The model of a stage: what the stage left, else what it makes now.

        Raises:
            WeightsRefused: the folder that the stage left is not what was written.
        """
        folder = self._folder.path / "models" / name
        if not checkpoint.is_sealed(folder):
            publish_policy(*make(), folder)
            checkpoint.seal(folder)
        checkpoint.check_seal(folder)
        return load_policy(folder)

    def _resume_from(self, stage: str) -> tuple[Path, BatcherState] | None:
        """The checkpoint that a stage goes on from; None where it begins."""

        def report(folder: Path, reason: str) -> None:
            where = str(folder.relative_to(self._folder.path))
            self._record("checkpoint_refused", stage=stage, folder=where, reason=reason)

        return checkpoint.take_newest(self._folder.checkpoints / stage, report)

    def _initial_policy(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        config = self._config.policy
        if config.new is None:
            assert config.folder is not None
            return load_policy(config.folder)
        shown = self._shown.dataset.tasks if self._shown is not self._train else []
        tasks = self._train.dataset.tasks + shown
        texts = (
            "\n".join([*(said.content for said in task.history), task.prompt, task.gold or ""])
            for task in tasks
        )
        return create_policy(config.new, texts, self._config.seed)

    def _make_publisher(self, tokenizer: PreTrainedTokenizerBase) -> WeightPublisher:
        task = self._train.dataset.tasks[0]
        ids, _ = answered_token_ids(task, task.gold or "", tokenizer)
        transfer: Literal["folder", "upload"] = "folder"
        if self._settings.weight_transfer == "upload":
            transfer = "upload"
        return WeightPublisher(
            self._folder.policies,
            self._connect,
            ids[:_PROBE_TOKENS],
            transfer,
            self._make_direct(),
            lambda version, reason: self._record("by_folder", version=version, message=reason),
        )

    def _make_direct(self) -> DirectTransfer | None:
        if self._settings.weight_transfer != "direct":
            return None
        return DirectTransfer(
            self._settings,
            lambda: InferenceClient.from_settings(
                self._settings, timeouts=_ANNOUNCE, retry=NO_RETRY
            ),
        )

    def _connect(self) -> InferenceClient:
        return InferenceClient.from_settings(self._settings, timeouts=_ANNOUNCE, retry=_RETRY)

    def _sft(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, config: SFTConfig
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        def on_step(step: int, metrics: dict[str, float]) -> None:
            if step % _SFT_PROGRESS_EVERY == 0 or step == config.steps:
                self._record("progress", stage="sft", done=step, loss=metrics["loss"])
                self._set_status(step=step)

        found = self._resume_from("sft")
        train_sft(
            model,
            tokenizer,
            self._shown.usable.demonstrations(
                config.demonstrations_per_task, config.mistake_rate, self._config.seed
            ),
            config,
            seed=self._config.seed,
            checkpoints=self._folder.checkpoints / "sft",
            on_step=on_step,
            stop=self._stop,
            keep_checkpoints=self._config.retention.checkpoints,
            resume_from=found[0] if found else None,
        )
        return model, tokenizer

    def _grpo(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        config = self._config.grpo
        assert config is not None
        assert self._publisher is not None
        found = self._resume_from("grpo")
        self._supersede(checkpoint.step_of(found[0]) if found else 0)
        feed = GroupBatcher(
            self._rollouts(config.group_timeout_s, config.group_attempts),
            TaskOrder(self._train.dataset.tasks, self._config.seed),
            config,
            run=self._folder.path.name,
            seed=self._config.seed,
            state=found[1] if found else BatcherState(),
            set_aside=self._train.set_aside,
            published=self._publisher.published,
            while_waiting=self._while_waiting,
        )
        ended_early = GRPOStage(
            model,
            tokenizer,
            feed,
            self._publisher,
            config,
            retention=self._config.retention,
            seed=self._config.seed,
            checkpoints=self._folder.checkpoints / "grpo",
            resume_from=found[0] if found else None,
            rollouts_file=self._folder.rollouts,
            report=self._report_step,
            stop=self._stop,
        ).train()
        if ended_early is not None:
            self._record("grpo_ended_early", message=ended_early)
        return model, tokenizer

    def _supersede(self, step: int) -> None:
        """Mark what earlier attempts did after `step`: it is done again from there."""
        num_superseded = mark_superseded(self._folder.rollouts, step)
        if any(event.kind == "step" for event in self._folder.read_events()):
            self._record("resumed", stage="grpo", step=step, num_superseded=num_superseded)

    def _evaluate(
        self, name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> TaskEvaluation:
        path = self._folder.evaluation(name)
        if path.exists():
            return TaskEvaluation.model_validate_json(path.read_text())
        config = self._config.evaluation
        assert self._publisher is not None
        with self._stage(f"evaluate {name}", len(self._held_out.usable.tasks)):
            policy = self._publisher.publish(model, tokenizer).policy
            assert isinstance(policy, PolicyVersion)
            evaluator = Evaluator(
                self._rollouts(config.group_timeout_s, config.group_attempts),
                config,
                run=self._folder.path.name,
                seed=self._config.seed,
                set_aside=self._held_out.set_aside,
                on_progress=lambda done, num_all: self._report_evaluated(name, done, num_all),
                while_waiting=self._while_waiting,
            )
            evaluation = evaluator.evaluate(name, self._held_out.dataset.tasks, policy)
            write_atomically(path, evaluation.model_dump_json(indent=1))
        measured = Evaluated(
            name=name,
            pass_at={k: evaluation.interval(k) for k in config.k},
            outcomes=dict(evaluation.outcomes()),
        )
        self._record("evaluated", **measured.model_dump(mode="json"))
        return evaluation

    def _rollouts(self, timeout_s: float, attempts: int) -> RolloutDispatcher:
        celery = make_celery(self._settings.redis_url)
        return RolloutDispatcher(celery, self._store, timeout_s=timeout_s, attempts=attempts)

    def _while_waiting(self) -> None:
        self._stop.check()
        assert self._publisher is not None
        self._publisher.ensure_served()

    def _report_step(self, step: StepEvent) -> None:
        self._record("step", **step.model_dump(mode="json"))
        self._set_status(step=step.step)

    def _report_set_aside(self, task: TaskSetAside) -> None:
        self._record("task_set_aside", **task.model_dump(mode="json"))

    def _report_evaluated(self, name: str, done: int, num_all: int) -> None:
        every = max(1, num_all // _EVALUATION_PROGRESS)
        if done // every != self._status.step // every or done == num_all:
            self._record("progress", stage=f"evaluate {name}", done=done)
            self._set_status(step=done)

    @contextmanager
    def _stage(self, name: str, num_steps: int = 0) -> Iterator[None]:
        self._stop.check()
        self._set_status(stage=name, step=0, num_steps=num_steps)
        self._record("stage_started", stage=name, num_steps=num_steps)
        started = time.monotonic()
        yield
        self._record("stage_finished", stage=name, took_s=time.monotonic() - started)

    def _record(self, kind: str, **data: JsonValue) -> None:
        self._on_event(self._folder.record(kind, **data))

    def _set_status(self, **changes: object) -> None:
        self._status = self._status.model_copy(update=changes)
        self._folder.write_status(self._status)
