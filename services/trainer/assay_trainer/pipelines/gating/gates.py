"""Gates: bounds for measured numbers, decided by their intervals."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

from assay_shared.errors import DatasetError
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.power import tasks_to_decide
from assay_trainer.pipelines.gate_config import GateConfig
from assay_trainer.pipelines.gating.changes import change_checks
from assay_trainer.pipelines.gating.numbers import Numbers, numbers_of
from assay_trainer.pipelines.stage_folder import GateResult, StageFolder, Verdict
from assay_trainer.pipelines.stage_kinds import AnyStage, MeasuringStage

_MOST_NAMES = 40


@dataclass(frozen=True)
class MeasuredNumber:
    """A number with its interval; a plain number has no width. `value` is None if unmeasured."""

    value: Interval | None
    is_exact: bool
    #: Tasks behind it; 0 if that is not known.
    num_tasks: int


def decide(stage: AnyStage, folder: StageFolder) -> list[GateResult]:
    """Return the verdict of each gate of a stage, after those of its built-in checks.

    PASS if the whole interval keeps the bound, FAIL if none of it does, else INCONCLUSIVE.

    Raises:
        DatasetError: the stage has no such number.
    """
    built_in = [] if stage.allow_no_change else change_checks(stage, folder)
    return [*built_in, *(_decide(gate, stage, folder) for gate in stage.gates)]


def told_value(gate: GateResult) -> str:
    """Return the number with its interval, in words."""
    if gate.value is None:
        return "nothing was scored"
    if gate.low is None and gate.high is None and gate.is_exact:
        return f"{gate.value:.4g}"
    low = "-inf" if gate.low is None else f"{gate.low:.4g}"
    high = "inf" if gate.high is None else f"{gate.high:.4g}"
    return f"{gate.value:.4g} ({low} to {high})"


def _decide(gate: GateConfig, stage: AnyStage, folder: StageFolder) -> GateResult:
    name = gate.set
    if name is None and isinstance(stage, MeasuringStage):
        name = next(iter(stage.sets))
    found = find_number(numbers_of(stage, folder, name), gate.metric, name or folder.name)
    verdict, needed = _verdict(gate, found)
    follows = {"PASS": "continue", "FAIL": gate.on_fail, "INCONCLUSIVE": gate.on_inconclusive}
    actions = {"PASS": "", "FAIL": gate.action}
    value = found.value
    return GateResult(
        set=name or "",
        metric=gate.metric,
        bound=gate.told,
        value=None if value is None else value.value,
        low=None if value is None or found.is_exact else _finite(value.low),
        high=None if value is None or found.is_exact else _finite(value.high),
        is_exact=found.is_exact,
        verdict=verdict,
        tasks_to_decide=needed,
        follows=follows[verdict],
        action=actions.get(verdict, gate.action_between or gate.action),
    )


def _verdict(gate: GateConfig, found: MeasuredNumber) -> tuple[Verdict, int | None]:
    if found.value is None:
        return "INCONCLUSIVE", None
    ends = (gate.sign * found.value.low, gate.sign * found.value.high)
    if min(ends) >= gate.passes_at:
        return "PASS", None
    if max(ends) < gate.fails_at:
        return "FAIL", None
    # A value in the gap between two bounds stays there with more tasks.
    in_gap = gate.fails_at < gate.sign * found.value.value < gate.passes_at
    if found.is_exact or not found.num_tasks or in_gap:
        return "INCONCLUSIVE", None
    bound = gate.bounds[0 if gate.sign * found.value.value < gate.fails_at else -1]
    return "INCONCLUSIVE", tasks_to_decide(found.value, (bound,), found.num_tasks)


def find_number(numbers: Numbers, metric: str, place: str) -> MeasuredNumber:
    """Return the number at a dotted path.

    Raises:
        DatasetError: there is none; names those that there are.
    """
    value: Any = numbers
    num_tasks = 0
    for part in metric.split("."):
        if not isinstance(value, dict) or part not in value:
            raise _unknown(numbers, metric, place)
        num_tasks = _tasks_in(value) or num_tasks
        value = value[part]
        if value is None:
            return MeasuredNumber(None, is_exact=False, num_tasks=0)
    if isinstance(value, bool | int | float):
        exact = float(value)
        return MeasuredNumber(Interval(exact, exact, exact), is_exact=True, num_tasks=num_tasks)
    if not _is_estimate(value):
        raise _unknown(numbers, metric, place)
    low, high = value["low"], value["high"]
    interval = Interval(
        value=value["value"],
        low=float("-inf") if low is None else low,
        high=float("inf") if high is None else high,
    )
    return MeasuredNumber(interval, is_exact=False, num_tasks=_tasks_in(value) or num_tasks)


def _tasks_in(value: dict[str, Any]) -> int:
    found = value.get("num_scored_tasks", value.get("num_tasks"))
    return found if isinstance(found, int) else 0


def _unknown(numbers: Numbers, metric: str, place: str) -> DatasetError:
    known = list(_paths(numbers))
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return DatasetError(
        f"the numbers of {place} have no {metric}",
        field="gates.metric",
        hint=f"known: {', '.join(known[:_MOST_NAMES])}{more}",
    )


def _paths(numbers: Numbers, before: str = "") -> list[str]:
    """Return the paths of all numbers, in their order."""
    found: list[str] = []
    for key, value in numbers.items():
        if _is_estimate(value) or isinstance(value, bool | int | float):
            found.append(f"{before}{key}")
        elif isinstance(value, dict):
            found += _paths(value, f"{before}{key}.")
    return found


def _finite(bound: float) -> float | None:
    """Return the bound; None of one that is infinite."""
    return bound if isfinite(bound) else None


def _is_estimate(value: object) -> bool:
    return isinstance(value, dict) and {"value", "low", "high"} <= value.keys()
