"""Gates: a bound for a measured number, decided by its interval."""

import json
from math import isfinite
from pathlib import Path
from typing import Any

from assay_shared.errors import DatasetError
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.power import tasks_to_decide
from assay_trainer.pipelines.pipeline_config import EvaluateStage, GateConfig
from assay_trainer.pipelines.stage_folder import GateResult, Verdict


def decide(stage: EvaluateStage, output: Path) -> list[GateResult]:
    """Return the verdict of each gate of an evaluation.

    PASS if the whole interval keeps the bound, FAIL if none of it does, else INCONCLUSIVE.

    Raises:
        DatasetError: the evaluation has no such number.
    """
    return [_decide(gate, gate.set or next(iter(stage.sets)), output) for gate in stage.gates]


def told_value(gate: GateResult) -> str:
    """Return the number with its interval, in words."""
    if gate.value is None:
        return "nothing was scored"
    low = "-inf" if gate.low is None else f"{gate.low:.4g}"
    high = "inf" if gate.high is None else f"{gate.high:.4g}"
    return f"{gate.value:.4g} ({low} to {high})"


def _decide(gate: GateConfig, name: str, output: Path) -> GateResult:
    overall = json.loads((output / name / "metrics.json").read_text())["overall"]
    found = _estimate(overall, gate.metric, name)
    bound = gate.at_least if gate.at_least is not None else gate.at_most
    assert bound is not None
    told = f"at least {bound:g}" if gate.at_least is not None else f"at most {bound:g}"
    verdict, needed = _verdict(gate, found, bound, int(overall["num_scored_tasks"]))
    follows = {"PASS": "continue", "FAIL": gate.on_fail, "INCONCLUSIVE": gate.on_inconclusive}
    return GateResult(
        set=name,
        metric=gate.metric,
        bound=told,
        value=None if found is None else found.value,
        low=None if found is None else _finite(found.low),
        high=None if found is None else _finite(found.high),
        verdict=verdict,
        tasks_to_decide=needed,
        follows=follows[verdict],
        action="" if verdict == "PASS" else gate.action,
    )


def _verdict(
    gate: GateConfig, found: Interval | None, bound: float, num_tasks: int
) -> tuple[Verdict, int | None]:
    if found is None:
        return "INCONCLUSIVE", None
    keeps, breaks = found.low >= bound, found.high < bound
    if gate.at_most is not None:
        keeps, breaks = found.high <= bound, found.low > bound
    if keeps:
        return "PASS", None
    if breaks:
        return "FAIL", None
    return "INCONCLUSIVE", tasks_to_decide(found, (bound,), num_tasks)


def _estimate(overall: dict[str, Any], metric: str, name: str) -> Interval | None:
    """Return a number with its interval; None if nothing was scored for it."""
    value: Any = overall
    for part in metric.split("."):
        if not isinstance(value, dict) or part not in value:
            known = ", ".join(key for key, one in overall.items() if _is_estimate(one))
            raise DatasetError(
                f"metrics.json of {name} has no {metric}",
                field="gates.metric",
                hint=f"known: {known}",
            )
        value = value[part]
        if value is None:
            return None
    if not _is_estimate(value):
        raise DatasetError(
            f"{metric} of {name} has no interval, so no gate can be decided", field="gates.metric"
        )
    low, high = value["low"], value["high"]
    return Interval(
        value=value["value"],
        low=float("-inf") if low is None else low,
        high=float("inf") if high is None else high,
    )


def _finite(bound: float) -> float | None:
    """Return the bound; None of one that is infinite."""
    return bound if isfinite(bound) else None


def _is_estimate(value: object) -> bool:
    return isinstance(value, dict) and {"value", "low", "high"} <= value.keys()
