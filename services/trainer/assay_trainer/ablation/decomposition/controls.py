"""Planted changes: four that do nothing or only change units or size, and one that acts.

A check that calls everything NO EFFECT fails the last one; one that calls everything ACTS, the
others.
"""

from collections.abc import Collection, Sequence

from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.run_file import parse_config
from assay_trainer.ablation.arms import changed_fields, with_overrides
from assay_trainer.ablation.decomposition.batches import (
    StoredBatch,
    reward_values,
    step_events,
    stored_batches,
    with_rewards,
)
from assay_trainer.ablation.decomposition.decompose import compare, start_of
from assay_trainer.ablation.decomposition.findings import (
    BatchParts,
    PlantedChange,
    PlantedChanges,
    SamplerFinding,
    SwitchVerdict,
)
from assay_trainer.ablation.decomposition.sampler import (
    SampleCounts,
    SamplerFacts,
    sampler_finding,
)
from assay_trainer.ablation.decomposition.steps import Settings
from assay_trainer.ablation.decomposition.verdicts import (
    arm_verdict,
    gradient_verdict,
    reward_finding,
)
from assay_trainer.config import RunConfig
from assay_trainer.learner.ranks import Ranks

REWARD_TIMES = 1.4
#: Settings with which a clip cannot act: one update on samples of the very weights.
_ON_POLICY: dict[str, object] = {
    "grpo.loss": "dapo",
    "grpo.correction": None,
    "grpo.dual_clip": None,
    "grpo.updates_per_step": 1,
    "grpo.max_staleness": 0,
    "grpo.allow_inert": True,
}
#: Settings without a term that has other units than rewards.
_REWARD_ALONE: dict[str, object] = {
    "grpo.overlong": None,
    "grpo.kl_weight": 0.0,
    "grpo.entropy_weight": 0.0,
    "grpo.updates_per_step": 1,
    "grpo.allow_inert": True,
}
#: Settings under which rewards in other units are gradients of another size.
_SIZE_OF_REWARDS: dict[str, object] = {
    "grpo.normalise": "none",
    "grpo.overlong": None,
    "grpo.kl_weight": 0.0,
    "grpo.entropy_weight": 0.0,
    "grpo.max_grad_norm": 1e9,
    "grpo.allow_inert": True,
}
_CLIPS = {"grpo.clip_low": 0.2, "grpo.clip_high": 0.28}
_OTHER_CLIPS = {"grpo.clip_low": 0.1, "grpo.clip_high": 0.14}


def run_controls(
    config: RunConfig, runs: Sequence[RunFolder], most: int, ranks: Ranks
) -> PlantedChanges:
    """Return the verdict of the checks on each planted change.

    They take the first stored batch of all runs with signal.

    Args:
        config: of one of the runs; they differ in their seeds alone.
        most: the first batches of each run to look for signal in.

    Raises:
        DatasetError: a run's rollouts cannot be read.
    """
    stored = ((run, batch) for run in runs for batch in stored_batches(run, most))
    run, batch = next((one for one in stored if one[1].has_signal), (runs[0], None))
    if batch is None:
        return PlantedChanges(run=run.path.name, controls=[])
    settings = Settings(start_of(run), ranks)
    return PlantedChanges(
        run=run.path.name,
        controls=[
            _reward_times(config, batch, settings),
            _scale_over_updates(config, batch, settings),
            _temperature_twice(config, batch, settings, run),
            _clip_on_policy(config, batch, settings),
            _rewards_moved(config, batch, settings),
        ],
    )


def _of_batches(
    old: RunConfig,
    new: RunConfig,
    batch: StoredBatch,
    settings: Settings,
    *,
    changed: StoredBatch | None = None,
    on_policy: bool = False,
) -> BatchParts:
    first, second = settings.of(old), settings.of(new)
    start = first.updater.snapshot()
    found, _ = compare(first, second, start, batch, changed=changed, on_policy=on_policy)
    return found


def times(values: Sequence[float]) -> list[float]:
    """Return rewards in other units."""
    return [REWARD_TIMES * one for one in values]


def _reward_times(config: RunConfig, batch: StoredBatch, settings: Settings) -> PlantedChange:
    """Give rewards in other units, where nothing but rewards has units."""
    alone = _parsed(config.model_dump(mode="json"), _REWARD_ALONE)
    changed = with_rewards(batch, times)
    found = _of_batches(alone, alone, batch, settings, changed=changed)
    reward = reward_finding(reward_values([batch]), reward_values([changed]))
    gradient = gradient_verdict([found], ())
    verdict = reward.verdict if gradient is not SwitchVerdict.ACTS else gradient
    return PlantedChange(
        name="reward_times",
        planted=f"every reward times {REWARD_TIMES:g}",
        expected=[SwitchVerdict.OTHER_UNITS],
        found=verdict,
        reason=f"rewards: {reward.scale:.3g} times the old ones, R2 {reward.r_squared:.4f}; "
        f"gradient: {gradient}",
        parts=found,
        reward=reward,
    )


def _scale_over_updates(config: RunConfig, batch: StoredBatch, settings: Settings) -> PlantedChange:
    """Give gradients of another size in all updates of a step of the arm."""
    alone = _parsed(config.model_dump(mode="json"), _SIZE_OF_REWARDS)
    found = _of_batches(alone, alone, batch, settings, changed=with_rewards(batch, times))
    return _judged_as_arm(
        "scale_over_updates",
        f"advantages times {REWARD_TIMES:g}, in each update of a step",
        SwitchVerdict.SCALE_ONLY,
        found,
    )


def _temperature_twice(
    config: RunConfig, batch: StoredBatch, settings: Settings, run: RunFolder
) -> PlantedChange:
    """Give the temperature that the arm has once more, as an override."""
    assert config.grpo is not None
    values = config.model_dump(mode="json")
    again = with_overrides(values, {"grpo.temperature": config.grpo.temperature})
    new = parse_config(RunConfig, again, source="a planted change")
    assert new.grpo is not None
    changed = changed_fields(config, new)
    found = _of_batches(config, new, batch, settings)
    counts = SampleCounts.of(batch.groups, new.grpo)
    facts = SamplerFacts(config.grpo, new.grpo, counts, step_events(run)[:1])
    return _judged_as_arm(
        "temperature_twice",
        f"temperature {config.grpo.temperature:g} given a second time",
        SwitchVerdict.NO_EFFECT,
        found,
        changed,
        sampler_finding(changed, facts),
    )


def _clip_on_policy(config: RunConfig, batch: StoredBatch, settings: Settings) -> PlantedChange:
    """Halve the clip of a step with one update, on samples of the weights that it updates."""
    assert config.grpo is not None
    # Only what has a meaning for every run file: the rest is as the arm has it.
    values = config.model_dump(mode="json")
    old = _parsed(values, {**_ON_POLICY, **_CLIPS})
    new = _parsed(values, {**_ON_POLICY, **_OTHER_CLIPS})
    found = _of_batches(old, new, batch, settings, on_policy=True)
    return _judged_as_arm(
        "clip_on_policy",
        "half the clip, with one update on samples of the same weights",
        SwitchVerdict.NO_EFFECT,
        found,
        changed_fields(old, new),
    )


def _judged_as_arm(
    name: str,
    planted: str,
    expected: SwitchVerdict,
    found: BatchParts,
    changed: Collection[str] = (),
    sampler: SamplerFinding | None = None,
) -> PlantedChange:
    """Return a planted change with the verdict that an arm would get."""
    verdict, reason = arm_verdict(gradient_verdict([found], changed), sampler)
    return PlantedChange(
        name=name, planted=planted, expected=[expected], found=verdict, reason=reason, parts=found
    )


def _parsed(values: dict[str, object], overrides: dict[str, object]) -> RunConfig:
    changed = with_overrides(values, overrides)  # type: ignore[arg-type]
    return parse_config(RunConfig, changed, source="a planted change")


def moved(values: Sequence[float]) -> list[float]:
    """Return each answer's reward as that of the next one."""
    return [*values[1:], *values[:1]]


def _rewards_moved(config: RunConfig, batch: StoredBatch, settings: Settings) -> PlantedChange:
    # In half of the groups: in all, groups of two answers would only turn the gradient round.
    changed = with_rewards(batch, moved, every=2)
    found = _of_batches(config, config, batch, settings, changed=changed)
    verdict = gradient_verdict([found], ())
    return PlantedChange(
        name="rewards_moved",
        planted="in every second group, each answer gets the reward of the next one",
        expected=[SwitchVerdict.ACTS],
        found=verdict,
        reason="this one acts: a check that calls everything a no-op would miss it",
        parts=found,
    )
