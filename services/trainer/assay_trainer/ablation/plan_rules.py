"""What is refused of an ablation file before anything is trained, beyond fields with bad values."""

from collections.abc import Iterable
from itertools import combinations
from math import inf
from pathlib import Path

from assay_shared.errors import ConfigError, DatasetError
from assay_shared.settings.run_file import parse_config
from assay_shared.types import Role, Task
from assay_trainer.ablation.ablation_config import GoalConfig
from assay_trainer.ablation.arms import (
    AblationPlan,
    arm_config,
    changed_fields,
    read_ablation,
    start_config,
)
from assay_trainer.ablation.curriculum_rules import check_curricula
from assay_trainer.ablation.metrics import component_of, is_share, passes_of, recoveries_of
from assay_trainer.ablation.rubric_components import RUBRIC_COMPONENTS
from assay_trainer.ablation.size_rules import check_lengths
from assay_trainer.config import RunConfig
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.evaluate.sets import refuse_training_rows
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.inert_rules import refuse_inert
from assay_trainer.sources import Gsm8kSource, HumanEvalSource, Source
from assay_trainer.table_source import HubSource, TableSource

_METRICS = "evaluation.metrics"
#: The environment whose episodes have recoveries.
_OR_DEBUG = "or_debug"
#: It says what is trained, and changes nothing of it.
_NO_SETTING = "grpo.allow_inert"


def read_checked(
    file: Path, changes: tuple[str, ...] = (), *, needs_files: bool = True
) -> AblationPlan:
    """Return the plan of an ablation file that can be decided as it is written.

    Args:
        needs_files: refuse a held-out set whose file is missing; else nothing is said of its tasks.

    Raises:
        ConfigError: a field, an arm, a metric or a goal cannot be used; names it.
        DatasetError: a held-out set, or one of a curriculum, cannot be read.
        RoleError: a stage of a curriculum would end by rows for tests alone, or a held-out set has
            rows for training alone.
    """
    plan = read_ablation(file, changes)
    configs = {arm.name: arm_config(plan, arm, plan.config.seeds[0], None) for arm in plan.arms}
    _check_switches(configs)
    _check_difference(configs)
    _check_goals(plan.config.goals)
    _check_samples(plan)
    _check_components(plan, needs_files)
    _check_rows(plan)
    check_lengths(plan, configs)
    check_curricula(configs)
    return plan


def _check_switches(configs: dict[str, RunConfig]) -> None:
    for name, config in configs.items():
        try:
            refuse_inert(config)
        except ConfigError as error:
            raise ConfigError(
                error.message, field=f"arms.{name}: {error.field}", hint=error.hint
            ) from None


def _check_difference(configs: dict[str, RunConfig]) -> None:
    for (first, old), (second, new) in combinations(configs.items(), 2):
        if not changed_fields(old, new).keys() - {_NO_SETTING}:
            raise ConfigError(
                f"the arms {first} and {second} have the same settings",
                field=f"arms.{second}",
                hint="leave one out: seeds of one arm are compared with each other as A/A anyway",
            )


def _check_goals(goals: tuple[GoalConfig, ...]) -> None:
    """Check that no goal is about nothing, and that all can be met together."""
    bounds: dict[tuple[str, str | None, str | None], list[tuple[float, bool, int]]] = {}
    for at, goal in enumerate(goals):
        if goal.arm is not None and goal.arm == goal.against:
            raise ConfigError(
                f"{goal.arm} is compared with itself: the difference is always 0",
                field=f"goals.{at}.against",
                hint="name another arm, or start",
            )
        bound, is_lower = goal.at_least, True
        if bound is None:
            bound, is_lower = goal.at_most, False
        assert bound is not None
        _check_bound(goal, bound, at)
        pair = (goal.arm, goal.against)
        if goal.arm is not None and goal.against is not None and goal.against < goal.arm:
            # The difference the other way round has the other sign.
            pair, bound, is_lower = (goal.against, goal.arm), -bound, not is_lower
        bounds.setdefault((goal.metric, *pair), []).append((bound, is_lower, at))
    for found in bounds.values():
        for (one, is_lower, first), (other, is_other_lower, second) in combinations(found, 2):
            low, high = (one, other) if is_lower else (other, one)
            if is_lower != is_other_lower and low >= high:
                raise ConfigError(
                    f"goals.{first} and goals.{second} cannot both be met",
                    field=f"goals.{second}",
                    hint="leave one out, or put at_least below at_most",
                )


def _check_bound(goal: GoalConfig, bound: float, at: int) -> None:
    """Check that a metric can have the value of a goal's bound, and values beyond it."""
    is_lower = goal.at_least is not None
    field = f"goals.{at}.{'at_least' if is_lower else 'at_most'}"
    low, high = _ends(goal)
    if low == -inf:
        return
    name = goal.metric if goal.against is None else f"a difference in {goal.metric}"
    told = f"{name} is from {low:g} to {high:g}"
    limits = f"from {low:g} to {high:g}"
    if high == inf:
        told, limits = f"{name} is never below {low:g}", f"of {low:g} or more"
    if not low <= bound <= high:
        raise ConfigError(
            f"{told}, and the goal's bound is {bound:g}",
            field=field,
            hint=f"give a bound {limits}",
        )
    if bound == (high if is_lower else low):
        raise ConfigError(
            f"{told}, so no interval lies {'above' if is_lower else 'below'} {bound:g}",
            field=field,
            hint=f"give a bound {'below' if is_lower else 'above'} {bound:g}: an interval that "
            "touches the bound decides nothing",
        )
    if bound == (low if is_lower else high):
        raise ConfigError(
            f"{told}, so every arm reaches {bound:g}",
            field=field,
            hint=f"give a bound {'above' if is_lower else 'below'} {bound:g}",
        )


def _ends(goal: GoalConfig) -> tuple[float, float]:
    """Return the lowest and the highest value that a goal can be about."""
    if is_share(goal.metric):
        return (0, 1) if goal.against is None else (-1, 1)
    return (0, inf) if goal.metric == "tokens" and goal.against is None else (-inf, inf)


def _check_samples(plan: AblationPlan) -> None:
    """Check that a task gets as many samples as each pass@K needs."""
    (tier,) = start_config(plan).evaluation.tiers
    num = parse_config(Protocol, dict(tier.protocol), source="evaluation.protocol").samples_per_task
    for name in plan.config.evaluation.metrics:
        k = passes_of(name)
        if k is not None and k > num:
            raise ConfigError(
                f"{name} needs {k} samples of a task, and samples_per_task is {num}",
                field=_METRICS,
                hint=f"set samples_per_task of evaluation.protocol, or of the base, to {k}",
            )


def _check_components(plan: AblationPlan, needs_files: bool) -> None:
    """Check that tasks of a held-out set can have each metric."""
    names = plan.config.evaluation.metrics
    if all(component_of(one) is None and recoveries_of(one) is None for one in names):
        return
    (tier,) = start_config(plan).evaluation.tiers
    kinds: set[tuple[str, str]] = set()
    for name, source in tier.sets.items():
        own = f"evaluation.sets.{name}" if plan.config.evaluation.sets else "data.held_out"
        path = getattr(source, "path", None)
        if not isinstance(source, HumanEvalSource | Gsm8kSource) and path and not path.exists():
            if needs_files:
                raise DatasetError(f"there is no file {path}", field=f"{own}.path")
            return
        kinds |= _kinds(source)
    rubrics = sorted({rubric for rubric, _ in kinds})
    for name in names:
        if recoveries_of(name) is not None and all(kind != _OR_DEBUG for _, kind in kinds):
            raise ConfigError(
                f"{name} is of {_OR_DEBUG}, and no task of the held-out sets is",
                field=_METRICS,
                hint="take it out, or name a set of such tasks in evaluation.sets",
            )
        if component_of(name) is not None:
            _check_component(name, rubrics)


def _check_rows(plan: AblationPlan) -> None:
    """Check that each set has rows to measure on, and none for tests alone if it is of a curve."""
    (tier,) = start_config(plan).evaluation.tiers
    for name, source in tier.sets.items():
        tasks = _tasks_of(source)
        if tasks:
            field = f"evaluation.sets.{name}" if plan.config.evaluation.sets else "data.held_out"
            refuse_training_rows(tasks, name, field)
        has_tests = isinstance(source, HumanEvalSource) or any(
            task.role is Role.TEST for task in tasks
        )
        if plan.config.evaluation.curve_every is not None and has_tests:
            raise ConfigError(
                f"{name} has rows for tests alone, and a curve measures checkpoints",
                field="evaluation.curve_every",
                hint="leave it out, or name sets of validation rows in evaluation.sets",
            )


def _tasks_of(source: Source) -> list[Task]:
    """Return a source's tasks; none if they cannot be read yet, or have the roles of its kind."""
    path = getattr(source, "path", None)
    if isinstance(source, HubSource | Gsm8kSource | HumanEvalSource):
        return []
    if path and not path.exists():
        return []
    return open_dataset(source, DatasetPurpose.EVALUATE, None).tasks


def _check_component(name: str, rubrics: Iterable[str]) -> None:
    known: set[str] = set()
    for rubric in rubrics:
        if rubric not in RUBRIC_COMPONENTS:
            return
        known |= RUBRIC_COMPONENTS[rubric]
    if name not in known:
        raise ConfigError(
            f"no task of the held-out sets has {name}: their rubrics are {', '.join(rubrics)}",
            field=_METRICS,
            hint=f"their components are {', '.join(sorted(known))}",
        )


def _kinds(source: Source) -> set[tuple[str, str]]:
    """Return the rubrics of a source's tasks, each with the name of the environment or nothing."""
    if isinstance(source, TableSource | HubSource):
        return {(source.map.rubric, "")}
    if isinstance(source, Gsm8kSource):
        return {("math", "")}
    if isinstance(source, HumanEvalSource):
        return {("code.sparse", "")}
    tasks = open_dataset(source, DatasetPurpose.EVALUATE, None).tasks
    return {(one.rubric, one.environment.name if one.environment else "") for one in tasks}
