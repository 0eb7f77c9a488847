"""The decomposition of an arm's gradients on the stored batches of the arm before it."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.ablation.arms import changed_fields
from assay_trainer.ablation.decomposition.activity import activity_of
from assay_trainer.ablation.decomposition.batches import (
    StoredBatch,
    left_out_groups,
    living_groups,
    step_events,
    stored_batches,
)
from assay_trainer.ablation.decomposition.findings import (
    BatchParts,
    Decomposition,
    SwitchVerdict,
)
from assay_trainer.ablation.decomposition.gradients import StepEffect, parts
from assay_trainer.ablation.decomposition.probed_updater import Snapshot
from assay_trainer.ablation.decomposition.sampler import (
    SampleCounts,
    SamplerFacts,
    sampler_finding,
)
from assay_trainer.ablation.decomposition.steps import (
    Setting,
    Settings,
    step_effect,
    update_parts,
)
from assay_trainer.ablation.decomposition.verdicts import arm_verdict, gradient_verdict
from assay_trainer.config import RunConfig
from assay_trainer.learner.ranks import Ranks

OnBatch = Callable[[], None]


@dataclass(frozen=True)
class ArmPair:
    """An arm and the one that it is compared with, each with its run file."""

    arm: str
    previous: str
    new: RunConfig
    old: RunConfig


def start_of(run: RunFolder) -> Path:
    """Return the folder of the weights that a run began with."""
    return run.path / "models" / "initial"


def decompose(
    pair: ArmPair,
    runs: Sequence[RunFolder],
    most: int,
    ranks: Ranks,
    on_batch: OnBatch = lambda: None,
) -> Decomposition:
    """Return what the new settings change in `runs`, all finished runs of the old ones.

    Samples and events are those of all steps of all runs. Gradients are compared on the `most`
    first batches of the first run; of the others too, as long as nothing has changed them. Equal
    settings of updates, as of two curricula, are compared on the first run alone.

    Raises:
        DatasetError: its rollouts cannot be read.
        Diverged: a gradient is not finite.
    """
    assert pair.old.grpo is not None
    assert pair.new.grpo is not None
    changed = changed_fields(pair.old, pair.new)
    events = {run.path.name: step_events(run) for run in runs}
    groups = (group for run in runs for group in living_groups(run))
    left_out = (group for run in runs for group in left_out_groups(run))
    facts = SamplerFacts(
        pair.old.grpo,
        pair.new.grpo,
        SampleCounts.of(groups, pair.new.grpo, left_out),
        [step for steps in events.values() for step in steps],
    )
    sampler = sampler_finding(changed, facts)
    found = _compared_batches(pair, runs, most, ranks, changed, on_batch)
    activity = activity_of(changed, events)
    verdict, reason = arm_verdict(gradient_verdict(found, changed), sampler, activity)
    if not changed:
        verdict, reason = SwitchVerdict.NO_EFFECT, "no setting differs"
    return Decomposition(
        arm=pair.arm,
        previous=pair.previous,
        run=runs[0].path.name,
        runs=list(events),
        changed=_shown(changed),
        batches=found,
        sampler=sampler,
        verdict=verdict,
        reason=reason,
    )


def _compared_batches(
    pair: ArmPair,
    runs: Sequence[RunFolder],
    most: int,
    ranks: Ranks,
    changed: Collection[str],
    on_batch: OnBatch,
) -> list[BatchParts]:
    """Return the parts of the first batches of the runs, up to the run in which one changes."""
    assert pair.old.grpo is not None
    assert pair.new.grpo is not None
    found: list[BatchParts] = []
    if pair.old.grpo.optimiser != pair.new.grpo.optimiser:
        return found
    is_same = (pair.old.grpo, pair.old.policy.lora) == (pair.new.grpo, pair.new.policy.lora)
    for run in runs[:1] if is_same else runs:
        settings = Settings(start_of(run), ranks)
        old, new = settings.of(pair.old), settings.of(pair.new)
        parts_of_run = _along(old, new, stored_batches(run, most), on_batch)
        found += [one.model_copy(update={"run": run.path.name}) for one in parts_of_run]
        if gradient_verdict(found, changed) in (SwitchVerdict.ACTS, SwitchVerdict.WEAK):
            break
    return found


def _along(
    old: Setting, new: Setting, batches: list[StoredBatch], on_batch: OnBatch
) -> list[BatchParts]:
    """Return the parts of each batch; the weights follow the old settings."""
    found = []
    state = old.updater.snapshot()
    for batch in batches:
        one, state = compare(old, new, state, batch)
        found.append(one)
        on_batch()
    return found


def compare(
    old: Setting,
    new: Setting,
    start: Snapshot,
    batch: StoredBatch,
    *,
    changed: StoredBatch | None = None,
    on_policy: bool = False,
) -> tuple[BatchParts, Snapshot]:
    """Return the parts of a step under both settings, and the state after the old one.

    With `changed`, the new settings get that batch.
    """
    updates = update_parts(old, new, start, batch, changed=changed, on_policy=on_policy)
    other = step_effect(new, start, changed or batch, on_policy=on_policy)
    again = step_effect(old, start, batch, on_policy=on_policy)
    base = step_effect(old, start, batch, on_policy=on_policy)
    found = _parts(batch, old, base, again, other)
    if updates:
        far = max(updates, key=lambda one: abs(one.scale - 1))
        each = {
            "update_direction": max(one.direction for one in updates),
            "update_scale": far.scale,
        }
        found = found.model_copy(update=each)
    return found, old.updater.snapshot()


def _parts(
    batch: StoredBatch, old: Setting, base: StepEffect, again: StepEffect, other: StepEffect
) -> BatchParts:
    gradient = parts(base.gradient_W, other.gradient_W)
    change = parts(base.change_W, other.change_W)
    return BatchParts(
        step=batch.step,
        num_groups=len(batch.groups),
        num_updates=old.config.updates_per_step,
        difference=gradient.difference,
        scale=gradient.scale,
        direction=gradient.direction,
        change_difference=change.difference,
        change_scale=change.scale,
        change_direction=change.direction,
        noise=parts(base.gradient_W, again.gradient_W).difference,
        is_empty=not (base.gradient_W.any() or other.gradient_W.any()),
    )


def _shown(changed: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[str, str]]:
    return {name: (json.dumps(old), json.dumps(new)) for name, (old, new) in changed.items()}
