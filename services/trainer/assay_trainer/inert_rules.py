"""Switches of a run file that cannot act: a rule for each, with what would make them act.

A switch is set if it differs from its default. Training refuses such a file unless it says
`grpo.allow_inert`: whoever sets a switch expects an effect.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from assay_shared.errors import ConfigError
from assay_trainer.config import RunConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.objective.losses.row import LossBounds
from assay_trainer.objective.losses.table import LOSSES

_ALLOW = "or leave it out; grpo.allow_inert: true trains all the same"
#: Settings that read how far the ratio is from 1.
_OF_THE_RATIO = ("clip_low", "clip_high", "dual_clip", "distance_weight")


@dataclass(frozen=True)
class InertSwitch:
    """A switch that cannot act."""

    #: The field of the run file.
    field: str
    reason: str
    #: What would make it act.
    remedy: str

    @property
    def message(self) -> str:
        return f"{self.reason} ({self.remedy}, {_ALLOW})"


Found = Iterator[InertSwitch]


def inert_switches(config: RunConfig) -> list[InertSwitch]:
    """Return the switches of a run file that cannot act."""
    found = [*_dropout(config)]
    if config.grpo is not None:
        rules: tuple[Callable[[GRPOConfig], Found], ...] = (
            _unread,
            _unmoved_ratio,
            _kl,
            _mask,
        )
        found += [one for rule in rules for one in rule(config.grpo)]
    return found


def allows_inert(config: RunConfig) -> bool:
    """Return True if the run file wants to train with such switches."""
    return config.grpo is not None and config.grpo.allow_inert


def refuse_inert(config: RunConfig) -> None:
    """Check that every switch of a run file can act.

    Raises:
        ConfigError: one cannot, and the file does not allow it.
    """
    found = inert_switches(config)
    if found and not allows_inert(config):
        first = found[0]
        others = ", ".join(one.field for one in found[1:])
        told = f"; nor can {others}" if others else ""
        raise ConfigError(first.reason + told, field=first.field, hint=f"{first.remedy}, {_ALLOW}")


def _is_set(grpo: GRPOConfig, name: str) -> bool:
    return bool(getattr(grpo, name) != GRPOConfig.model_fields[name].default)


def _unread(grpo: GRPOConfig) -> Found:
    for name in (one.name for one in fields(LossBounds)):
        if _is_set(grpo, name) and name not in LOSSES[grpo.loss].reads:
            readers = [row.name for row in LOSSES.values() if name in row.reads]
            yield InertSwitch(
                f"grpo.{name}",
                f"{name} does nothing with loss {grpo.loss}",
                f"it acts with loss {', '.join(readers)}",
            )


def _unmoved_ratio(grpo: GRPOConfig) -> Found:
    is_old = grpo.correction is None and grpo.max_staleness > 0
    if grpo.updates_per_step > 1 or is_old:
        return
    if grpo.correction is not None:
        why = "with correction the ratio is to the policy at the step's start, and one update"
        remedy = "set grpo.updates_per_step above 1, or grpo.correction: null"
    else:
        why = "all tokens are of the weights that are updated (max_staleness is 0), and one update"
        remedy = "set grpo.updates_per_step or grpo.max_staleness above its present value"
    for name in _OF_THE_RATIO:
        if _is_set(grpo, name) and name in LOSSES[grpo.loss].reads:
            yield InertSwitch(
                f"grpo.{name}", f"{name} cannot act: {why} leaves the ratio at 1", remedy
            )


def _kl(grpo: GRPOConfig) -> Found:
    if _is_set(grpo, "kl_estimator") and not grpo.kl_weight:
        yield InertSwitch(
            "grpo.kl_estimator", "kl_estimator does nothing: kl_weight is 0", "set grpo.kl_weight"
        )
    if grpo.kl_weight and grpo.steps * grpo.updates_per_step == 1:
        yield InertSwitch(
            "grpo.kl_weight",
            "kl_weight cannot act in one update: the policy is still the reference",
            "set grpo.steps or grpo.updates_per_step above 1",
        )


def _mask(grpo: GRPOConfig) -> Found:
    found = grpo.correction
    if found is not None and found.kind == "off_policy_mask" and found.low == 0:
        yield InertSwitch(
            "grpo.correction",
            "off_policy_mask leaves out nothing: no weight is below low 0",
            "set grpo.correction.low above 0",
        )


def _dropout(config: RunConfig) -> Found:
    lora = config.policy.lora
    if lora is not None and lora.dropout and config.sft is None and config.dpo is None:
        yield InertSwitch(
            "policy.lora.dropout",
            "dropout does nothing: there is no sft or dpo, and GRPO takes none",
            "add sft or dpo",
        )
