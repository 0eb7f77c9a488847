"""The run files of an ablation: of its start, and of each arm for each seed."""

import hashlib
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import load_config, parse_config, read_yaml
from assay_trainer.ablation.ablation_config import AblationConfig, Overrides
from assay_trainer.config import RunConfig

#: The tier that measures the start and every arm.
TIER = "ablation"
CURVE = "ablation_curve"


@dataclass(frozen=True)
class Arm:
    """An arm with all its changes of the base; `previous` is the arm that it is compared with."""

    name: str
    overrides: Overrides
    previous: str | None


@dataclass(frozen=True)
class AblationPlan:
    """An ablation file, the run file under it, and its arms in order."""

    config: AblationConfig
    base: RunConfig
    arms: tuple[Arm, ...]

    def arm(self, name: str) -> Arm:
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
    changed = with_overrides(values, config.overrides)
    changed = _measured(changed, config)
    base = parse_config(RunConfig, changed, source="the base")
    if base.grpo is None:
        raise ConfigError("the arms of an ablation train by GRPO", field="grpo")
    arms: list[Arm] = []
    for name, own in config.arms.items():
        before = arms[-1] if config.mode == "cumulative" else arms[0] if arms else None
        if arms and before is not None:
            arms.append(Arm(name, {**before.overrides, **own}, before.name))
        else:
            arms.append(Arm(name, dict(own), None))
    plan = AblationPlan(config, base, tuple(arms))
    for arm in arms:
        arm_config(plan, arm, config.seeds[0], None)
    return plan


def with_overrides(values: Mapping[str, Any], overrides: Overrides) -> dict[str, Any]:
    """Return the values of a run file with dotted overrides.

    Raises:
        ConfigError: a part of a key is not a section.
    """
    changed = deepcopy(dict(values))
    for key, value in overrides.items():
        *parents, last = key.split(".")
        at = changed
        for parent in parents:
            if at.get(parent) is None:
                at[parent] = {}
            at = at[parent]
            if not isinstance(at, dict):
                raise ConfigError(f"{parent} is not a section", field=key)
        at[last] = deepcopy(value)
    return changed


def _measured(values: dict[str, Any], config: AblationConfig) -> dict[str, Any]:
    """Return the run file with the ablation's evaluator as tiers."""
    evaluation = dict(values.get("evaluation") or {})
    held_out = (values.get("data") or {}).get("held_out")
    sets = {
        name: source.model_dump(mode="json") for name, source in config.evaluation.sets.items()
    } or {"held_out": held_out}
    tier = {"sets": sets, "protocol": config.evaluation.protocol, "limit": config.evaluation.limit}
    tiers = [*(evaluation.get("tiers") or ()), {"name": TIER, "at": "end", **tier}]
    every = config.evaluation.curve_every
    if every is not None:
        named = {f"curve_{name}": source for name, source in sets.items()}
        tiers.append({"name": CURVE, "at": "checkpoints", **tier, "sets": named})
        values = with_overrides(values, {"grpo.checkpoint_every": every})
    evaluation["tiers"] = tiers
    return {**values, "evaluation": evaluation}


def start_config(plan: AblationPlan) -> RunConfig:
    """Return the run file of the start: everything of the base before GRPO."""
    values = plan.base.model_dump(mode="json") | {"grpo": None}
    tiers = [one for one in values["evaluation"]["tiers"] if one["name"] == TIER]
    values["evaluation"]["tiers"] = tiers
    values.pop("curriculum", None)
    return parse_config(RunConfig, values, source="the start")


def arm_config(plan: AblationPlan, arm: Arm, seed: int, start: Path | None) -> RunConfig:
    """Return the run file of an arm and a seed: the base from the start's weights, GRPO alone.

    The start has proved the rewards and looked for leaks, so the arms do not. Without `start`, the
    policy is the base's.

    Raises:
        ConfigError: the arm's settings cannot be used together.
    """
    values = with_overrides(plan.base.model_dump(mode="json", exclude_unset=True), arm.overrides)
    values |= {"seed": seed, "name": arm.name, "sft": None, "dpo": None}
    data = {**values["data"], "validation": None, "leaks": None, "demonstrations": None}
    values["data"] = data
    if start is not None:
        lora = values["policy"].get("lora")
        values["policy"] = {"folder": str(start), "lora": lora}
    found = parse_config(RunConfig, values, source=f"the arm {arm.name}")
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
    return found


def _fields(config: RunConfig, section: str) -> dict[str, Any]:
    one = config.model_dump(mode="json").get(section)
    return one if isinstance(one, dict) else {} if one is None else {"": one}


def settings_digest(config: RunConfig) -> str:
    """Return the SHA-256 of all that may not differ between arms, seeds and weights aside."""
    values = config.model_dump(mode="json")
    for name in ("grpo", "curriculum", "seed", "name", "policy"):
        values.pop(name, None)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
