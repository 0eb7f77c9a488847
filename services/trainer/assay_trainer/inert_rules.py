"""Switches of a run file that cannot act: a rule for each, with what would make them act.

A switch is set if it differs from its default. Training refuses such a file unless it says
`grpo.allow_inert`: whoever sets a switch expects an effect.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from assay_shared.errors import ConfigError
from assay_shared.types import Normalisation, SyncMode
from assay_trainer.config import RunConfig
from assay_trainer.curriculum_config import PassRateConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.objective.losses.row import LossBounds
from assay_trainer.objective.losses.table import LOSSES
from assay_trainer.sources import GeneratedSource, Gsm8kSource, HumanEvalSource
from assay_trainer.table_source import HubSource, TableSource

_ALLOW = "or leave it out; grpo.allow_inert: true trains all the same"
#: Settings that read how far the ratio is from 1.
_OF_THE_RATIO = ("clip_low", "clip_high", "dual_clip", "distance_weight")
#: Losses equal to dapo for answers of one token, and normalisations equal to `group` for a batch of
#: one group.
_DAPO_OF_A_TOKEN = ("grpo", "dr_grpo", "gspo")
_GROUP_OF_ONE = (
    Normalisation.BATCH,
    Normalisation.REINFORCE_PP,
    Normalisation.REINFORCE_PP_BASELINE,
)
#: It multiplies the weights of all tokens of an answer, and their rounding with them.
_OF_WHOLE_ANSWERS = "sequence_mask"
#: Sources whose tasks have one turn; a row of another may have an environment.
_ONE_TURN = (GeneratedSource, Gsm8kSource, HumanEvalSource, TableSource, HubSource)


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
    found = [*_dropout(config), *_mistakes(config), *_pass_rates(config), *_pool(config)]
    if config.grpo is not None:
        rules: tuple[Callable[[GRPOConfig], Found], ...] = (
            _unread,
            _unmoved_ratio,
            _kl,
            _mask,
            _unmoved_weight,
            _one_group,
            _staleness,
        )
        found += [one for rule in rules for one in rule(config.grpo)]
        if config.grpo.max_tokens == 1 and isinstance(config.data.train, _ONE_TURN):
            found += _one_token(config.grpo)
    return found


def allows_inert(config: RunConfig) -> bool:
    """Return True if the run file wants to train with such switches."""
    return config.grpo is not None and config.grpo.allow_inert


def refuse_inert(config: RunConfig) -> None:
    """Check that every switch of a run file can act.

    Raises:
        ConfigError: one cannot, and the file does not allow it.
    """
    refuse_switches(inert_switches(config), config)


def refuse_switches(found: Sequence[InertSwitch], config: RunConfig) -> None:
    """Refuse switches that cannot act.

    Raises:
        ConfigError: there are some, and the run file does not allow them.
    """
    if found and not allows_inert(config):
        first = found[0]
        others = ", ".join(one.field for one in found[1:])
        told = f"; nor can {others}" if others else ""
        raise ConfigError(first.reason + told, field=first.field, hint=f"{first.remedy}, {_ALLOW}")


def _default(name: str) -> Any:
    return GRPOConfig.model_fields[name].default


def _is_set(grpo: GRPOConfig, name: str) -> bool:
    return bool(getattr(grpo, name) != _default(name))


def _unread(grpo: GRPOConfig) -> Found:
    for name in (one.name for one in fields(LossBounds)):
        if _is_set(grpo, name) and name not in LOSSES[grpo.loss].reads:
            readers = [row.name for row in LOSSES.values() if name in row.reads]
            yield InertSwitch(
                f"grpo.{name}",
                f"{name} does nothing with loss {grpo.loss}",
                f"it acts with loss {', '.join(readers)}",
            )


def _of_present_weights(grpo: GRPOConfig) -> tuple[str, str] | None:
    """Return why every learnt token is of the step's own weights, and a remedy.

    None if it may not: with `sync: continue`, an answer continues with the cache of older weights.
    """
    if grpo.max_staleness == 0 and grpo.sync is not SyncMode.CONTINUE:
        steps = "" if grpo.steps > 1 else ", with grpo.steps above 1"
        why = "all tokens are of the weights that are updated (max_staleness is 0)"
        return why, f"grpo.max_staleness above 0{steps}"
    if grpo.steps == 1:
        stale = "" if grpo.max_staleness else ", with grpo.max_staleness above 0"
        return "a stage of one step has no older weights", f"grpo.steps above 1{stale}"
    return None


def _unmoved_ratio(grpo: GRPOConfig) -> Found:
    if grpo.updates_per_step > 1:
        return
    present = _of_present_weights(grpo)
    if grpo.correction is not None:
        why = "with correction the ratio is to the policy at the step's start"
        remedy = "grpo.correction: null"
        if present is not None:
            remedy += f" and {present[1]}"
    elif present is not None:
        why, remedy = present
    else:
        return
    for name in _OF_THE_RATIO:
        if _is_set(grpo, name) and name in LOSSES[grpo.loss].reads:
            yield InertSwitch(
                f"grpo.{name}",
                f"{name} cannot act: {why}, and one update leaves the ratio at 1",
                f"set grpo.updates_per_step above 1, or {remedy}",
            )


def _unmoved_weight(grpo: GRPOConfig) -> Found:
    present, found = _of_present_weights(grpo), grpo.correction
    if found is None or present is None or grpo.updates_per_step > 1:
        return
    # With too great a max_staleness, the correction may be its default.
    if found.kind == _OF_WHOLE_ANSWERS or _is_too_stale(grpo):
        return
    why, remedy = present
    yield InertSwitch(
        "grpo.correction",
        f"{found.kind} cannot act: {why}, and only rounding moves the importance weight from 1",
        f"set {remedy}",
    )


def _kl(grpo: GRPOConfig) -> Found:
    if _is_set(grpo, "kl_estimator") and not grpo.kl_weight:
        yield InertSwitch(
            "grpo.kl_estimator", "kl_estimator does nothing: kl_weight is 0", "set grpo.kl_weight"
        )
    if grpo.kl_estimator == "k2" and grpo.kl_weight:
        yield InertSwitch(
            "grpo.kl_estimator",
            "kl_estimator k2 trains as k3, the default, does: every token has the same gradient, "
            "and the events' kl alone differs",
            "set k1, whose gradient is another",
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


def _one_group(grpo: GRPOConfig) -> Found:
    if grpo.groups_per_step == 1 and grpo.normalise in _GROUP_OF_ONE:
        yield InertSwitch(
            "grpo.normalise",
            f"normalise {grpo.normalise} is group if a step learns one group: "
            "the batch is that group",
            "set grpo.groups_per_step above 1",
        )


def _is_too_stale(grpo: GRPOConfig) -> bool:
    """Return True if no token can be as old as a raised `max_staleness`."""
    return grpo.steps == 1 and grpo.max_staleness > _default("max_staleness")


def _staleness(grpo: GRPOConfig) -> Found:
    if _is_too_stale(grpo):
        yield InertSwitch(
            "grpo.max_staleness",
            f"max_staleness {grpo.max_staleness} cannot act in one step: there are no older "
            "weights",
            "set grpo.steps above 2",
        )
    is_forced = grpo.max_staleness > _default("hard_staleness")  # it has to be as much
    if not _is_set(grpo, "hard_staleness") or is_forced:
        return
    # A group is dropped by the lower of both limits only if a token can be older than it.
    bound = min(grpo.hard_staleness, _default("hard_staleness"))
    if grpo.steps - 1 <= bound:
        yield InertSwitch(
            "grpo.hard_staleness",
            f"hard_staleness cannot act in {grpo.steps} steps: no token can be more than "
            f"{grpo.steps - 1} versions old",
            f"set grpo.steps above {bound + 1}",
        )
    elif grpo.max_staleness == 0 and grpo.hard_staleness > bound:
        yield InertSwitch(
            "grpo.hard_staleness",
            f"hard_staleness {grpo.hard_staleness} cannot act: with max_staleness 0 no groups are "
            "sampled ahead",
            "set grpo.max_staleness above 0",
        )


def _one_token(grpo: GRPOConfig) -> Found:
    """Find settings of several tokens for answers of one."""
    remedy, one = "set grpo.max_tokens above 1", "with max_tokens 1 every answer is one token"
    if grpo.loss in _DAPO_OF_A_TOKEN:
        yield InertSwitch("grpo.loss", f"loss {grpo.loss} is dapo: {one}", remedy)
    if grpo.average not in (None, LOSSES[grpo.loss].average):
        yield InertSwitch("grpo.average", f"all averages are the same: {one}", remedy)
    if grpo.kl_estimator == "k1" and grpo.kl_weight:
        yield InertSwitch("grpo.kl_estimator", f"kl_estimator k1 is k3: {one}", remedy)


def _pass_rates(config: RunConfig) -> Found:
    for stage in config.curriculum.stages if config.curriculum is not None else ():
        if stage.until is None:
            continue
        first = _first_measured(stage.until)
        if first < stage.until.max_steps:
            continue
        is_shorter = stage.until.min_steps < stage.until.max_steps
        yield InertSwitch(
            f"curriculum.stages {stage.name}.until.pass_rate",
            f"pass_rate cannot end the stage {stage.name}: it is first measured after {first} "
            f"steps (every {stage.until.every}, from min_steps {stage.until.min_steps} on), and "
            f"the stage ends with {stage.until.max_steps} anyway",
            f"set max_steps above {first}" + (", or a smaller every" if is_shorter else ""),
        )


def _pool(config: RunConfig) -> Found:
    """Find a pool that waits for more samples of a task than all stages together have."""
    curriculum, grpo = config.curriculum, config.grpo
    if curriculum is None or curriculum.pool is None or grpo is None:
        return
    steps = min(grpo.steps, sum(stage.most_steps or 0 for stage in curriculum.stages))
    most = steps * grpo.max_groups_per_step * grpo.group_size
    if curriculum.pool.least_samples > most:
        yield InertSwitch(
            "curriculum.pool.least_samples",
            f"pool cannot act: no task has {curriculum.pool.least_samples} scored samples, as the "
            f"{steps} steps of the stages have at most {most} of all tasks",
            f"set a least_samples of a few groups, each of {grpo.group_size} samples",
        )


def _first_measured(until: PassRateConfig) -> int:
    """Return the first step of a stage after which its pass rate may be measured."""
    return -(-until.min_steps // until.every) * until.every


def _dropout(config: RunConfig) -> Found:
    lora = config.policy.lora
    if lora is not None and lora.dropout and config.sft is None:
        yield InertSwitch(
            "policy.lora.dropout",
            "dropout does nothing: there is no sft, and DPO and GRPO take none",
            "add sft",
        )


def _mistakes(config: RunConfig) -> Found:
    learnt = config.data.demonstrations or config.data.train
    wanted = config.sft is not None and config.sft.mistake_rate > 0
    if wanted and not isinstance(learnt, GeneratedSource):
        yield InertSwitch(
            "sft.mistake_rate",
            f"mistake_rate does nothing: tasks of kind {learnt.kind} have no documented mistakes",
            "set it to 0, or take generated tasks",
        )
