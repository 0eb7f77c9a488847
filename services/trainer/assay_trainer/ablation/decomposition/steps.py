"""A step of training on a stored batch, as GRPO takes it, with one policy for each setting."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assay_shared.types import PolicyVersion
from assay_trainer.ablation.decomposition.batches import StoredBatch
from assay_trainer.ablation.decomposition.gradients import (
    GradientParts,
    StepEffect,
    effect_of,
    parts,
)
from assay_trainer.ablation.decomposition.probed_updater import ProbedUpdater, Snapshot
from assay_trainer.config import RunConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.network.adapters import add_adapter, has_own_types
from assay_trainer.learner.network.model import load_policy
from assay_trainer.learner.normalisation.overlong import Overlong
from assay_trainer.learner.packs import Pack, pack_rows, rows
from assay_trainer.learner.ranks import Ranks
from assay_trainer.weights.adapter import bare


@dataclass(frozen=True)
class Setting:
    """An updater under the settings of an arm, at the arm's start."""

    config: GRPOConfig
    updater: ProbedUpdater


class Settings:
    """Makes updaters of arms at the weights of one folder."""

    def __init__(self, start: Path, ranks: Ranks) -> None:
        self._start = start
        self._ranks = ranks

    def of(self, config: RunConfig) -> Setting:
        """Return a setting; a fresh model is loaded for it."""
        assert config.grpo is not None
        lora = config.policy.lora
        own = has_own_types(lora, self._ranks.device)
        model, _ = load_policy(self._start, keep_types=own)
        if lora is not None:
            still = lora.model_copy(update={"dropout": 0.0})
            model = bare(add_adapter(model, still, config.seed, self._ranks.device))
        return Setting(config.grpo, ProbedUpdater(model, config.grpo, self._ranks))


def packs_of(setting: Setting, batch: StoredBatch, policy: PolicyVersion | None) -> list[Pack]:
    """Return a batch as the setting packs it."""
    config = setting.config
    step_rows = rows(batch.groups, config.normalise, Overlong.of(config))
    return pack_rows(step_rows, setting.updater.objective, config.tokens_per_pack, policy)


def step_effect(
    setting: Setting, start: Snapshot, batch: StoredBatch, *, on_policy: bool = False
) -> StepEffect:
    """Return the effect of a whole step on a batch, from the state in `start`.

    The updater is then at the end of the step. With `on_policy`, the stored log-probabilities are
    replaced by those of the weights in `start`.
    """

    def take(updater: ProbedUpdater, on_gradient: Callable[[], None]) -> None:
        packs = _step_packs(setting, batch, on_policy)
        for number in range(setting.config.updates_per_step):
            gradient = updater.backward(packs, again=number > 0)
            on_gradient()
            updater.apply(batch.step, gradient)

    return effect_of(setting.updater, start, take)


def update_parts(
    old: Setting,
    new: Setting,
    start: Snapshot,
    batch: StoredBatch,
    *,
    changed: StoredBatch | None = None,
    on_policy: bool = False,
) -> list[GradientParts]:
    """Return the parts of each update of a step at the weights of the old settings.

    On its own way, a gradient of another size comes to other weights from the second update on, so
    that its direction differs too. Here, what differs is the settings alone. Nothing is returned
    if they take other numbers of updates. With `changed`, the new settings get that batch.
    """
    num = old.config.updates_per_step
    if new.config.updates_per_step != num:
        return []
    old.updater.go_back(start)
    new.updater.go_back(start)
    packs = _step_packs(old, batch, on_policy)
    others = _step_packs(new, changed or batch, on_policy)
    found = []
    for number in range(num):
        new.updater.follow(old.updater)
        gradient = old.updater.backward(packs, again=number > 0)
        new.updater.backward(others, again=number > 0)
        found.append(parts(old.updater.gradient_W(), new.updater.gradient_W()))
        old.updater.apply(batch.step, gradient)
    return found


def _step_packs(setting: Setting, batch: StoredBatch, on_policy: bool) -> list[Pack]:
    packs = packs_of(setting, batch, batch.policy)
    return setting.updater.on_policy(packs) if on_policy else packs
