"""A run from its data to its report. A stage with an existing file is skipped.

download -> data -> leaks -> validate -> policy -> sft -> dpo -> evaluate "before" -> signal
-> grpo -> evaluate "after" -> report
"""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from pydantic import BaseModel

from assay_shared.runs.run_folder import write_atomically
from assay_shared.telemetry.context import log_fields
from assay_shared.types import PolicyVersion, Task
from assay_trainer.curriculum.order import TaskOrder
from assay_trainer.curriculum.staged_order import FinishedStep, StagedOrder
from assay_trainer.curriculum.state import Advance, BatcherState
from assay_trainer.evaluation.evaluator import Evaluator, TaskEvaluation
from assay_trainer.evaluation.report import write_report
from assay_trainer.evaluation.stage_progress import StageProgress
from assay_trainer.events import CurriculumAdvanced, Evaluated, StepEvent, living
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner import checkpoint
from assay_trainer.learner.batcher import GroupBatcher
from assay_trainer.learner.grpo import GRPOStage
from assay_trainer.learner.network.adapters import check_lora, check_targets
from assay_trainer.learner.network.memory_advice import memory_told
from assay_trainer.learner.network.optimiser import check_optimiser
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.given_rows import run_dpo, run_sft
from assay_trainer.pipeline.hub_names import fetch_hub_names
from assay_trainer.pipeline.parts import Parts
from assay_trainer.pipeline.policy import (
    Policy,
    adapted,
    best_or_last,
    check_servable,
    initial_policy,
    make_publisher,
    newest_checkpoint,
    stage_model,
)
from assay_trainer.pipeline.run_sets import (
    check_for_leaks,
    check_template,
    held_out_stages,
    open_sets,
    set_aside_control_tokens,
    set_aside_too_long,
    training_stages,
    validate_rewards,
)
from assay_trainer.pipeline.signal_check import check_signal
from assay_trainer.pipeline.tiers import Tiers
from assay_trainer.pipeline.trackers import tracked
from assay_trainer.rollouts.rollout_log import mark_superseded
from assay_trainer.rollouts.store import GroupStore
from assay_trainer.weights.adapter import bare

_EVALUATION_PROGRESS = 24
#: An update that changes a smaller share of the weights is recorded as an event.
_LEAST_MOVED = 0.5


def execute(run: RunContext) -> None:
    """Run all unfinished stages. The caller holds the run's lock: see `endings.ending`.

    May be called again unless the run has finished.

    Raises:
        Stopped: a stop was requested.
        AssayError: the run failed; finished stages stay finished.
    """
    with closing(GroupStore(run.settings.redis_url)) as store, log_fields(run=run.name):
        run.set_status(state="running")
        run.forget_scratch()
        with tracked(run), memory_told(run.config, run.folder.path / "models"):
            fetch_hub_names(run)
            facts = _stages(run, store)
        gain = facts["differences"].get("pass_at_1")
        run.record("run_finished", report=str(run.folder.path / "report.html"), gain=gain)
        run.set_status(state="finished")


def _stages(run: RunContext, store: GroupStore) -> dict[str, Any]:
    """Run the stages in order and return the facts of the report."""
    config = run.config
    check_lora(config.policy.lora)
    if config.grpo is not None:
        check_optimiser(config.grpo.optimiser, run.ranks.size)
    store.check()
    with Tiers.begun(run) as tiers:
        tiers.check_rubrics()
        return _trained(run, store, tiers)


def _trained(run: RunContext, store: GroupStore, tiers: Tiers) -> dict[str, Any]:
    config = run.config
    with run.stage("data"):
        sets = open_sets(run)
    check_for_leaks(run, sets)
    validate_rewards(run, sets)
    with run.stage("policy"):
        policy = stage_model(run, "initial", lambda: initial_policy(run, sets))
        check_template(sets, policy[1])
        check_servable(run)
        if config.policy.lora is not None:
            check_targets(policy[0], config.policy.lora)
        set_aside_too_long(run, sets, *policy)
        set_aside_control_tokens(run, sets, policy[1])
        parts = Parts(run, sets, store, make_publisher(run, sets, policy[1]))
    if config.sft is not None:
        policy = run_sft(run, sets, policy, config.sft, tiers)
    if config.dpo is not None:
        policy = run_dpo(run, sets, policy, config.dpo, tiers)
    evaluations = [_evaluate(parts, "before", policy)]
    if config.grpo is not None:
        check_signal(parts, policy, config.grpo)
        policy = _run_grpo(parts, policy, config.grpo, tiers)
        evaluations.append(_evaluate(parts, "after", policy))
    if any(tier.at == "end" for tier in config.evaluation.tiers):
        with run.stage("tiers"):
            tiers.at_end(parts.serve(policy))
    with run.stage("report"):
        return write_report(run.folder, config, evaluations)


def _run_grpo(parts: Parts, policy: Policy, config: GRPOConfig, tiers: Tiers) -> Policy:
    def train() -> Policy:
        last = _train_grpo(parts, policy, config, tiers)
        return best_or_last(parts.run, tiers, "grpo", last)

    with parts.run.stage("grpo", config.steps):
        return stage_model(parts.run, "grpo", train)


def _train_grpo(parts: Parts, policy: Policy, config: GRPOConfig, tiers: Tiers) -> Policy:
    """Train the policy, or an adapter of it, on its own scored samples and return it."""
    run = parts.run
    model, tokenizer = adapted(run, policy)
    found = newest_checkpoint(run, "grpo")
    if found is not None:
        tiers.catch_up("grpo")
    _supersede(run, checkpoint.step_of(found[0]) if found else 0)
    state = found[1] if found else BatcherState()
    order = _order(parts, config, state)
    batcher = GroupBatcher(
        parts.dispatcher(config.group_timeout_s, config.group_attempts),
        order,
        config,
        run=run.name,
        seed=run.config.seed,
        state=state,
        set_aside=parts.sets.train.set_aside,
        published=parts.publisher.published,
        while_waiting=parts.while_waiting,
    )

    def report(step: StepEvent) -> None:
        run.record("step", **step.model_dump(mode="json"))
        # In the first step of an adapter, one of its two factors has no gradient.
        is_first = run.config.policy.lora is not None and step.step == 1
        if step.moved_share is not None and step.moved_share < _LEAST_MOVED and not is_first:
            run.record("weights_stand_still", step=step.step, moved_share=step.moved_share)
        run.set_status(step=step.step)

    ended_early = GRPOStage(
        bare(model),
        tokenizer,
        batcher,
        parts.publisher,
        config,
        retention=run.config.retention,
        checkpoints=run.folder.checkpoints / "grpo",
        resume_from=found[0] if found else None,
        rollouts_file=run.folder.rollouts,
        report=report,
        stop=run.stop,
        ranks=run.ranks,
        on_checkpoint=lambda step, version: tiers.at_version("grpo", step, version),
        on_served=_on_served(parts, order),
        on_skipped=partial(_record_end, run),
    ).train()
    if ended_early is not None:
        run.record("grpo_ended_early", message=ended_early)
    return model, tokenizer


def _order(parts: Parts, config: GRPOConfig, state: BatcherState) -> TaskOrder | StagedOrder:
    """Return the order of the training tasks: shuffled epochs, or the stages of a curriculum."""
    run, curriculum = parts.run, parts.run.config.curriculum
    if curriculum is None:
        return TaskOrder(parts.sets.train.dataset.tasks, run.config.seed)
    return StagedOrder(
        curriculum,
        training_stages(run, parts.sets),
        seed=run.config.seed,
        groups_per_step=config.groups_per_step,
        state=state.order,
    )


def _on_served(
    parts: Parts, order: TaskOrder | StagedOrder
) -> Callable[[FinishedStep, PolicyVersion], None]:
    """Return what a finished step does to the order: nothing without a curriculum."""
    run, curriculum = parts.run, parts.run.config.curriculum
    if curriculum is None or isinstance(order, TaskOrder):
        return lambda done, served: None

    def evaluate(name: str, tasks: list[Task], served: PolicyVersion) -> TaskEvaluation:
        return _evaluator(parts, lambda done, all_: None).evaluate(name, tasks, served)

    def record(kind: str, found: BaseModel) -> None:
        run.record(kind, **found.model_dump(mode="json"))

    held_out = held_out_stages(run, parts.sets)
    return StageProgress(curriculum, order, held_out, evaluate, record).on_served


def _record_end(run: RunContext, step: int, end: Advance) -> None:
    """Record the end of a stage with nothing to teach, once over all attempts."""
    told = CurriculumAdvanced(step=step, ended=end.ended, to=end.to, reason=end.reason)
    data = told.model_dump(mode="json")
    kind = "curriculum_advanced"
    known = [one.data for one in living(run.folder.read_events()) if one.kind == kind]
    if not any((one["step"], one["ended"]) == (step, end.ended) for one in known):
        run.record(kind, **data)


def _supersede(run: RunContext, step: int) -> None:
    """Mark the rollouts of earlier attempts after `step`: GRPO repeats these steps."""
    num_superseded = mark_superseded(run.folder.rollouts, step)
    if any(event.kind == "step" for event in run.folder.read_events()):
        run.record("resumed", stage="grpo", step=step, num_superseded=num_superseded)


def _evaluate(parts: Parts, name: str, policy: Policy) -> TaskEvaluation:
    """Return the evaluation `name` of the policy on the held-out set, from its file if done."""
    run = parts.run
    path = run.folder.evaluation(name)
    if path.exists():
        return TaskEvaluation.model_validate_json(path.read_text())
    config, held_out = run.config.evaluation, parts.sets.held_out

    def report(num_done: int, num_tasks: int) -> None:
        every = max(1, num_tasks // _EVALUATION_PROGRESS)
        if num_done // every != run.step // every or num_done == num_tasks:
            run.record("progress", stage=f"evaluate {name}", done=num_done)
            run.set_status(step=num_done)

    with run.stage(f"evaluate {name}", len(held_out.usable.tasks)):
        evaluator = _evaluator(parts, report)
        evaluation = evaluator.evaluate(name, held_out.dataset.tasks, parts.serve(policy))
        write_atomically(path, evaluation.model_dump_json(indent=1))
    measured = Evaluated(
        name=name,
        pass_at={k: evaluation.interval(k) for k in config.k},
        outcomes=dict(evaluation.outcomes()),
    )
    run.record("evaluated", **measured.model_dump(mode="json"))
    return evaluation


def _evaluator(parts: Parts, on_progress: Callable[[int, int], None]) -> Evaluator:
    """Return an evaluator of held-out tasks, over the same path as training."""
    run, config = parts.run, parts.run.config.evaluation
    return Evaluator(
        parts.dispatcher(config.group_timeout_s, config.group_attempts),
        config,
        run=run.name,
        seed=run.config.seed,
        set_aside=parts.sets.held_out.set_aside,
        on_progress=on_progress,
        while_waiting=parts.while_waiting,
    )
