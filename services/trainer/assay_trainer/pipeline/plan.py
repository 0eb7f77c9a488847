"""The plan of a run: what it needs and what is wrong with it, before anything is trained.

The plan publishes the first policy to the running inference, plays real groups with it, times one
update of their answers, and deletes all results.
"""

import resource
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from assay_shared.errors import CallerError, Conflict, WeightsRefused
from assay_shared.runs.run_lock import owner_of
from assay_shared.types import FinishReason, PolicyVersion, Scored
from assay_trainer.data.tokenization import prompt_token_ids
from assay_trainer.events import SignalChecked
from assay_trainer.grpo_config import GRPOConfig, SignalCheckConfig
from assay_trainer.learner.mismatch import check_mismatch
from assay_trainer.learner.network.adapters import check_targets
from assay_trainer.learner.network.context import context_of
from assay_trainer.learner.network.memory import num_trained
from assay_trainer.learner.network.optimiser import check_optimiser
from assay_trainer.learner.packs import AnswerRow, pack_rows, unweighted_rows
from assay_trainer.learner.throughput import mfu, num_multiplied
from assay_trainer.learner.updater import make_updater
from assay_trainer.pipeline.before_start import check_machine
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.hub_names import fetch_hub_names
from assay_trainer.pipeline.parts import Parts
from assay_trainer.pipeline.plan_rules import (
    Finding,
    PolicySizes,
    SampleFacts,
    check_memory,
    check_sample,
    check_settings,
    check_sizes,
    check_updates,
)
from assay_trainer.pipeline.plan_stages import (
    MemoryPlan,
    StagePlan,
    memory_plan,
    process_bytes,
    stage_plans,
)
from assay_trainer.pipeline.policy import (
    Policy,
    adapted,
    check_servable,
    initial_policy,
    make_publisher,
    stage_model,
)
from assay_trainer.pipeline.run_sets import (
    RunSets,
    check_for_leaks,
    check_template,
    open_sets,
    set_aside_control_tokens,
    set_aside_too_long,
    validate_rewards,
)
from assay_trainer.pipeline.signal_check import MOST_GROUPS, SignalSample, refusal, sample_signal
from assay_trainer.pipeline.tiers import Tiers
from assay_trainer.rollouts.store import GroupStore
from assay_trainer.weights.adapter import bare

#: Prompts that are tokenised to find the longest.
_MEASURED_PROMPTS = 1000


class StepPlan(BaseModel):
    """An expected step of GRPO."""

    #: Groups to play until `groups_per_step` of them have signal, `max_groups_per_step` at most.
    num_groups: int
    #: Tokens that the update reads, prompts included.
    num_tokens: int
    rollouts_s: float
    update_s: float
    publish_s: float
    #: Rollouts overlap with update and publication if `max_staleness` is above 0.
    step_s: float
    tokens_per_s: float
    mfu: float | None


class Plan(BaseModel):
    """A run's needs and findings; a part is null if it could not be found out."""

    run: str
    num_weights: int | None = None
    num_trained: int | None = None
    #: N of MFU: see learner/throughput.py.
    num_multiplied: int | None = None
    #: Of the stage that needs the most.
    memory: MemoryPlan | None = None
    stages: list[StagePlan] = []
    step: StepPlan | None = None
    signal: SignalChecked | None = None
    #: True if the sampled policy is one that SFT or DPO would change.
    is_before_sft: bool = False
    findings: list[Finding] = []

    @property
    def refused(self) -> bool:
        """Return True if training would be refused."""
        return any(one.refused for one in self.findings)


def make_plan(run: RunContext) -> Plan:
    """Return the plan of a run, whose folder is for the plan alone.

    Raises:
        Stopped: a stop was requested.
        InfrastructureError: a service does not answer.
        Conflict: a process trains a run, and the sampled policy would replace its own.
    """
    config = run.config
    plan = Plan(run=config.name, findings=check_settings(config))
    plan.is_before_sft = config.sft is not None or config.dpo is not None
    try:
        if not plan.refused:
            sets, policy, tiers = _without_services(plan, run)
        if not plan.refused:
            _with_services(plan, run, sets, policy, tiers)
    except Conflict:
        raise
    except (CallerError, WeightsRefused) as error:
        plan.findings.append(Finding.of(error))
    return plan


def _without_services(plan: Plan, run: RunContext) -> tuple[RunSets, Policy, Tiers]:
    """Return the run's sets, first policy and tiers, and add all that they show."""
    config = run.config
    check_machine(config)
    if config.grpo is not None:
        check_optimiser(config.grpo.optimiser, run.ranks.size)
    fetch_hub_names(run)
    sets = open_sets(run)
    with Tiers.begun(run) as tiers:  # it refuses sets that cannot be measured
        pass
    check_for_leaks(run, sets)
    process = process_bytes()
    policy = stage_model(run, "initial", lambda: initial_policy(run, sets))
    check_template(sets, policy[1])
    _add_sizes(plan, run, sets, policy, process)
    set_aside_too_long(run, sets, *policy)
    set_aside_control_tokens(run, sets, policy[1])
    return sets, policy, tiers


def _with_services(
    plan: Plan, run: RunContext, sets: RunSets, policy: Policy, tiers: Tiers
) -> None:
    """Prove rewards, and add an expected step of GRPO."""
    with closing(GroupStore(run.settings.redis_url)) as store:
        store.check()
        tiers.check_rubrics()
        validate_rewards(run, sets)
        check_servable(run)
        if run.config.grpo is not None:
            _check_none_trains(run.settings.runs)
            parts = Parts(run, sets, store, make_publisher(run, sets, policy[1]))
            _add_step(plan, parts, policy, run.config.grpo)


def _check_none_trains(runs: Path) -> None:
    """Check that no process trains a run of `runs`: the plan would replace its policy.

    Raises:
        Conflict: a process does.
    """
    for folder in sorted(runs.iterdir()):
        owner = owner_of(folder) if folder.is_dir() else None
        if owner is not None:
            raise Conflict(f"run {folder.name} belongs to {owner}", hint="plan when it has ended")


def _add_sizes(plan: Plan, run: RunContext, sets: RunSets, policy: Policy, process: int) -> None:
    """Add weights, stages, memory and the findings about them.

    Args:
        process: bytes of this process before the model was loaded.
    """
    model, tokenizer = policy
    some = sets.train.usable.tasks[:_MEASURED_PROMPTS]
    sizes = PolicySizes(
        context=context_of(model.config),
        longest_prompt=max(len(prompt_token_ids(task, tokenizer)) for task in some),
    )
    lora = run.config.policy.lora
    if lora is not None:
        check_targets(model, lora)
    plan.findings += check_sizes(run.config, sizes)
    plan.num_weights = model.num_parameters()
    plan.num_trained, plan.num_multiplied = num_trained(model, lora), num_multiplied(model)
    plan.stages = list(stage_plans(run, sets, policy))
    for stage in plan.stages:
        plan.findings += check_updates(run.config, stage)
    plan.memory = memory_plan(run, plan.stages, process)
    if plan.memory is not None:
        plan.findings += check_memory(
            plan.memory.estimated_total, plan.memory.card, plan.memory.stage
        )


def _add_step(plan: Plan, parts: Parts, policy: Policy, grpo: GRPOConfig) -> None:
    """Add an expected step, the share of groups with signal, and their findings."""
    run = parts.run
    wanted = grpo.signal_check or SignalCheckConfig(required=False)
    is_final = not plan.is_before_sft
    with run.stage("signal", wanted.num_groups):
        served = parts.serve(policy)
        started = time.monotonic()
        most = MOST_GROUPS if is_final and wanted.required else wanted.num_groups
        sample = sample_signal(parts, served, grpo, wanted.num_groups, most)
        group_s = (time.monotonic() - started) / max(1, len(sample.groups))
    plan.signal = sample.result()
    plan.findings += check_sample(grpo, _facts(sample, plan.signal, is_final))
    reason = refusal(plan.signal) if is_final and wanted.required else None
    if reason is not None:
        plan.findings.append(Finding.of(reason))
    wrapped, tokenizer = adapted(run, policy)
    trained = bare(wrapped), tokenizer
    update = _time_update(run, trained, grpo, sample, served)
    if plan.memory is not None:
        plan.memory.measured = update.memory_bytes
    if run.config.policy.lora is not None and run.config.policy.lora.nf4:
        parts.serve(trained)  # with its base, which is another one than the sampled policy
    started = time.monotonic()
    parts.serve(trained)
    publish_s = time.monotonic() - started
    plan.step = _expected(plan.signal, grpo, sample, update, group_s, publish_s)
    plan.step.mfu = mfu(policy[0], plan.step.tokens_per_s, run.ranks)


def _facts(sample: SignalSample, found: SignalChecked, is_final: bool) -> SampleFacts:
    ends = [one.finish_reason for scored in sample.groups for one in scored.group.rollouts]
    failed = [
        any(not isinstance(reward, Scored) for reward in scored.rewards) for scored in sample.groups
    ]
    return SampleFacts(
        share_with_signal=found.share.value,
        truncated_share=sum(end is FinishReason.LENGTH for end in ends) / max(1, len(ends)),
        num_failed=sum(failed),
        num_groups=found.num_groups,
        is_final=is_final,
    )


@dataclass(frozen=True)
class _Update:
    """A timed update of a pack."""

    tokens_per_s: float
    apply_s: float
    #: The most in use so far: of the GPU, or of this process.
    memory_bytes: int


def _time_update(
    run: RunContext, policy: Policy, grpo: GRPOConfig, sample: SignalSample, served: PolicyVersion
) -> _Update:
    """Time the second gradient of a pack of sampled answers, and an optimiser step.

    Raises:
        Mismatched: inference samples from other weights than it names.
    """
    updater = make_updater(policy[0], grpo, run.ranks)
    packs = pack_rows(_one_pack(sample, grpo), updater.objective, grpo.tokens_per_pack, served)
    updater.backward(packs)
    started = time.monotonic()
    gradient = updater.backward(packs)
    gradient_s = time.monotonic() - started
    found = updater.mismatch.summary()
    check_mismatch(found, grpo.max_mismatch_nats, served.version)
    started = time.monotonic()
    facts = updater.apply(1, gradient, found)
    apply_s = time.monotonic() - started
    memory = facts.memory_bytes or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return _Update(gradient.num_read / gradient_s, apply_s, memory)


def _one_pack(sample: SignalSample, grpo: GRPOConfig) -> list[AnswerRow]:
    """Return sampled answers of at most a pack's tokens; at least one."""
    found: list[AnswerRow] = []
    left = grpo.tokens_per_pack
    for row in (row for scored in sample.groups for row in unweighted_rows(scored)):
        left -= row.num_tokens
        if found and left < 0:
            break
        found.append(row)
    return found


def _expected(
    signal: SignalChecked,
    grpo: GRPOConfig,
    sample: SignalSample,
    update: _Update,
    group_s: float,
    publish_s: float,
) -> StepPlan:
    """Return the step that groups like those of the sample make."""
    rows = [row for scored in sample.groups for row in unweighted_rows(scored)]
    most = grpo.max_groups_per_step
    share = signal.share.value
    num_groups = min(most, round(grpo.groups_per_step / share)) if share else most
    row_tokens = sum(row.num_tokens for row in rows) / len(rows)
    num_tokens = round(row_tokens * grpo.group_size * grpo.groups_per_step)
    rollouts_s = num_groups * group_s
    update_s = grpo.updates_per_step * (num_tokens / update.tokens_per_s + update.apply_s)
    trained_s = update_s + publish_s
    return StepPlan(
        num_groups=num_groups,
        num_tokens=num_tokens,
        rollouts_s=rollouts_s,
        update_s=update_s,
        publish_s=publish_s,
        step_s=max(rollouts_s, trained_s) if grpo.max_staleness else rollouts_s + trained_s,
        tokens_per_s=grpo.updates_per_step * num_tokens / update_s,
        mfu=None,
    )
