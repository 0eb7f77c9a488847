"""A step of training on a stored batch, as GRPO takes it, with one policy for each setting."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assay_shared.types import PolicyVersion
from assay_trainer.ablation.decomposition.batches import StoredBatch
from assay_trainer.ablation.decomposition.gradients import StepEffect, effect_of
from assay_trainer.ablation.decomposition.probed_updater import ProbedUpdater, Snapshot
from assay_trainer.config import RunConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.network.adapters import add_adapter
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
        model, _ = load_policy(self._start)
        lora = config.policy.lora
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
        packs = packs_of(setting, batch, batch.policy)
        if on_policy:
            packs = updater.on_policy(packs)
        for number in range(setting.config.updates_per_step):
            gradient = updater.backward(packs, again=number > 0)
            on_gradient()
            updater.apply(batch.step, gradient)

    return effect_of(setting.updater, start, take)
