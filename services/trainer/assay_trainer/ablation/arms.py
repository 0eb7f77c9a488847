"""The run files of an ablation: of its start, and of each arm for each seed."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import load_config, parse_config, read_yaml, section_of
from assay_trainer.ablation.ablation_config import CHANGEABLE, AblationConfig, Overrides
from assay_trainer.ablation.metrics import check_metrics
from assay_trainer.config import EvaluationConfig, RunConfig
from assay_trainer.curriculum.winner import with_winner
from assay_trainer.curriculum_config import StageConfig, Where
from assay_trainer.objective.losses.table import average_of

#: The tier that measures the start and every arm.
TIER = "ablation"
CURVE = "ablation_curve"


@dataclass(frozen=True)
class AblationArm:
    """An arm with all its changes of the base; `previous` is the arm that it is compared with."""

    name: str
    overrides: Overrides
    previous: str | None


@dataclass(frozen=True)
class AblationPlan:
    """An ablation file, the run file under it, and its arms in order."""

    config: AblationConfig
    #: The run file as it was written, with the changes of all arms.
    values: Mapping[str, Any]
    arms: tuple[AblationArm, ...]

    def arm(self, name: str) -> AblationArm:
        return next(one for one in self.arms if one.name == name)


def read_ablation(file: Path, changes: tuple[str, ...] = ()) -> AblationPlan:
    """Return the plan of an ablation file with `key=value` changes of it.

    Raises:
        ConfigError: a field of it, of its base or of an arm cannot be used; names it.
    """
    config = load_config(AblationConfig, file, changes)
    values = config.run
    if config.base is not None:
        values = read_yaml(file.parent / config.base)
    return make_plan(config, values or {})


def make_plan(config: AblationConfig, values: Mapping[str, Any]) -> AblationPlan:
    """Return the plan of an ablation over the values of a run file; see `read_ablation`."""
    changed = with_winner(with_overrides(values, config.overrides))
    source = "the base with its overrides" if config.overrides else "the base"
    base = parse_config(RunConfig, changed, source=source)
    if base.grpo is None:
        raise ConfigError("the arms of an ablation train by GRPO", field="grpo")
    check_metrics(config.evaluation.metrics)
    arms: list[AblationArm] = []
    for name, own in config.arms.items():
        if not arms:
            arms.append(AblationArm(name, dict(own), None))
            continue
        before = arms[-1] if config.mode == "cumulative" else arms[0]
        arms.append(AblationArm(name, {**before.overrides, **own}, before.name))
    plan = AblationPlan(config, changed, tuple(arms))
    start_config(plan)
    for arm in arms:
        _check_arm(plan, arm)
    return plan


def _check_arm(plan: AblationPlan, arm: AblationArm) -> None:
    """Check the run file of an arm; of an arm with a whole section, tell of dotted keys.

    Raises:
        ConfigError: see `arm_config`.
    """
    try:
        arm_config(plan, arm, plan.config.seeds[0], None)
    except ConfigError as error:
        for key, value in arm.overrides.items():
            if key in CHANGEABLE and isinstance(value, dict) and value:
                name = next(iter(value))
                hint = (
                    f"arms.{arm.name} replaces the whole section {key}; to change a field of it, "
                    f"write a dotted key: {key}.{name}: {json.dumps(value[name])}"
                )
                raise ConfigError(error.message, field=error.field, hint=hint) from None
        raise


def with_overrides(values: Mapping[str, Any], overrides: Overrides) -> dict[str, Any]:
    """Return the values of a run file with dotted overrides.

    Raises:
        ConfigError: a part of a key is not a section.
    """
    changed = deepcopy(dict(values))
    for key, value in overrides.items():
        section, last = section_of(changed, key)
        section[last] = deepcopy(value)
    return changed


def _measured(values: dict[str, Any], plan: AblationPlan, *, is_arm: bool) -> dict[str, Any]:
    """Return the run file with the ablation's evaluator as tiers, and short evaluations else."""
    wanted, evaluation = plan.config.evaluation, dict(values.get("evaluation") or {})
    sets = {name: source.model_dump(mode="json") for name, source in wanted.sets.items()} or {
        "held_out": values["data"]["held_out"]
    }
    protocol = dict(wanted.protocol) or _usual_protocol(evaluation)
    tier = {"protocol": protocol, "limit": wanted.limit}
    tiers = [{"name": TIER, "at": "end", "sets": sets, **tier}]
    if is_arm and wanted.curve_every is not None:
        named = {f"curve_{name}": source for name, source in sets.items()}
        tiers.append({"name": CURVE, "at": "checkpoints", "sets": named, **tier})
        values = with_overrides(values, {"grpo.checkpoint_every": wanted.curve_every})
    evaluation |= {"tiers": tiers, "best": None, "samples_per_task": 1, "k": [1]}
    return {**values, "evaluation": evaluation}


def _usual_protocol(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the protocol that measures as the run file's own evaluation does."""
    own = EvaluationConfig.model_validate({**evaluation, "tiers": (), "best": None})
    shared: dict[str, Any] = {"max_tokens": own.max_tokens, "stop": list(own.stop)}
    if own.temperature == 0:
        return {"kind": "greedy", **shared}
    n = own.samples_per_task
    return {"kind": "sampled", "samples_per_task": n, "temperature": own.temperature, **shared}


def start_config(plan: AblationPlan) -> RunConfig:
    """Return the run file of the start: everything of the base before GRPO."""
    values = _measured({**plan.values, "grpo": None}, plan, is_arm=False)
    values.pop("curriculum", None)
    return parse_config(RunConfig, values, source="the start")


def arm_values(plan: AblationPlan, arm: AblationArm) -> dict[str, Any]:
    """Return the run file of an arm as the base has it: with SFT, and its own evaluation."""
    return with_overrides(plan.values, arm.overrides)


def arm_config(plan: AblationPlan, arm: AblationArm, seed: int, start: Path | None) -> RunConfig:
    """Return the run file of an arm and a seed: the base from the start's weights, GRPO alone.

    The start has proved the rewards and looked for leaks, so the arms do not. Without `start`, the
    policy is the base's.

    Raises:
        ConfigError: the arm's settings cannot be used together.
    """
    values = arm_values(plan, arm)
    values |= {"seed": seed, "name": arm.name, "sft": None, "dpo": None}
    unneeded = {"validation": None, "leaks": None, "demonstrations": None}
    values["data"] = {**values["data"], **unneeded}
    lora = values["policy"].get("lora")
    if isinstance(lora, dict):
        lora = {**lora, "dropout": 0.0}  # it is SFT's, and GRPO takes none
    values["policy"] = {**values["policy"], "lora": lora}
    if start is not None:
        values["policy"] = {"folder": str(start), "lora": lora}
    measured = _measured(values, plan, is_arm=True)
    found = parse_config(RunConfig, measured, source=f"the arm {arm.name}")
    if found.grpo is None:
        raise ConfigError("an arm trains by GRPO", field=f"arms.{arm.name}")
    return found


def changed_fields(old: RunConfig, new: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the settings of GRPO and the curriculum that differ, with both values, by name."""
    found: dict[str, tuple[Any, Any]] = {}
    for section in ("grpo", "curriculum"):
        mine, theirs = _fields(old, section), _fields(new, section)
        for key in sorted({*mine, *theirs}):
            if mine.get(key) != theirs.get(key):
                found[f"{section}.{key}"] = (mine.get(key), theirs.get(key))
    for key, meaning in _MEANINGS.items():
        if key in found and meaning(old) == meaning(new):
            del found[key]
    return found


def _average(config: RunConfig) -> str | None:
    """Return the average of a run: its loss's own by name or by null."""
    grpo = config.grpo
    return None if grpo is None else average_of(grpo.loss, grpo.average)


def _stages(config: RunConfig) -> list[Any]:
    """Return a curriculum's stages without their names, which give other draws of equal tasks."""
    return [
        {
            **stage.model_dump(mode="json", exclude={"name"}),
            "where": [],
            "mix": _parts(stage),
        }
        for stage in (config.curriculum.stages if config.curriculum else ())
    ]


def _parts(stage: StageConfig) -> list[tuple[dict[str, list[str]], float]]:
    """Return the tasks of a stage's parts, each with its share of the samples."""
    parts = [(one.where, one.weight) for one in stage.mix] or [(stage.where, 1.0)]
    whole = sum(weight for _, weight in parts)
    return [(_values(where), round(weight / whole, 9)) for where, weight in parts]


def _values(where: Where) -> dict[str, list[str]]:
    """Return the values of each tag, sorted, each once."""
    return {
        tag: [some] if isinstance(some, str) else sorted(set(some)) for tag, some in where.items()
    }


def _stops(config: RunConfig) -> list[str]:
    return sorted(set(config.grpo.stop)) if config.grpo is not None else []


#: Settings that say one thing in several ways, with the function that returns what they say.
_MEANINGS: dict[str, Callable[[RunConfig], Any]] = {
    "grpo.average": _average,  # a loss has its own, with or without its name
    "grpo.stop": _stops,
    "curriculum.stages": _stages,
}


def _fields(config: RunConfig, section: str) -> dict[str, Any]:
    one = config.model_dump(mode="json").get(section)
    return one if isinstance(one, dict) else {} if one is None else {"": one}
