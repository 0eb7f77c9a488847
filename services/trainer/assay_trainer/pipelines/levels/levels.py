"""Levels of success: each condition is decided from the results of stages, with its reason."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from assay_shared.types.wire import Wire
from assay_trainer.pipelines.gating.gates import told_value
from assay_trainer.pipelines.level_config import ConditionConfig, LevelConfig
from assay_trainer.pipelines.levels.reproduction import stored_reproduction
from assay_trainer.pipelines.placeholders import STAGE
from assay_trainer.pipelines.stage_folder import GateResult, StageFolder, StageRecord, Verdict
from assay_trainer.pipelines.stage_kinds import AnyStage, MeasuringStage, TrainStage

_WORST: tuple[Verdict, ...] = ("FAIL", "INCONCLUSIVE", "PASS")
_NOT_DONE = "is not done"


@dataclass(frozen=True)
class StageResult:
    """A stage as conditions see it."""

    stage: AnyStage
    folder: StageFolder
    record: StageRecord | None


class ConditionResult(Wire):
    """A condition of a level, with its verdict and the reason of it."""

    condition: str
    verdict: Verdict
    reason: str


class LevelResult(Wire):
    """A level: PASS if all its conditions and the levels before it pass, FAIL if any fails."""

    level: str
    verdict: Verdict
    conditions: tuple[ConditionResult, ...]


Results = Mapping[str, StageResult]
Finding = tuple[Verdict, str]


def decide_levels(levels: Mapping[str, LevelConfig], results: Results) -> list[LevelResult]:
    """Return the verdict of each level, in their order; each includes those before it."""
    found: list[LevelResult] = []
    for name, conditions in levels.items():
        own = tuple(_decide(one, results) for one in conditions)
        before: list[Verdict] = [one.verdict for one in found[-1:]]
        verdicts = [*before, *(one.verdict for one in own)]
        found.append(LevelResult(level=name, verdict=worst(verdicts), conditions=own))
    return found


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return FAIL before INCONCLUSIVE before PASS."""
    there = set(verdicts)
    return next((one for one in _WORST if one in there), "PASS")


def _decide(condition: ConditionConfig, results: Results) -> ConditionResult:
    verdict, reason = _missing([results[name] for name in condition.named()])
    if verdict == "PASS":
        verdict, reason = _RULES[condition.kinds[0]](condition, results)
    return ConditionResult(condition=condition.told, verdict=verdict, reason=reason)


def _missing(stages: Sequence[StageResult]) -> Finding:
    for one in stages:
        name = one.folder.name
        if one.record is None:
            attempts = one.folder.attempts()
            if attempts and attempts[-1].exit_code not in (None, 0):
                return "FAIL", f"{name} ended with exit code {attempts[-1].exit_code}"
            return "INCONCLUSIVE", f"{name} {_NOT_DONE}"
        if one.record.state == "skipped":
            return "FAIL", f"{name} was left out: {one.record.reason}"
    return "PASS", ""


def _done(condition: ConditionConfig, results: Results) -> Finding:
    assert condition.done is not None
    record = results[condition.done].record
    assert record is not None
    built_in = [one for one in record.gates if one.is_built_in]
    if built_in:
        return worst(one.verdict for one in built_in), _told_gates(built_in)
    return "PASS", "its command has ended well"


def _gate(condition: ConditionConfig, results: Results) -> Finding:
    assert condition.gate is not None
    record = results[condition.gate].record
    assert record is not None
    wanted = [
        one
        for one in record.gates
        if condition.metric in (None, one.metric) and condition.set in (None, one.set)
    ]
    if not wanted:
        return "INCONCLUSIVE", "there is no such gate"
    return worst(one.verdict for one in wanted), _told_gates(wanted)


def _told_gates(gates: Sequence[GateResult]) -> str:
    return "; ".join(
        f"{one.metric}{' of ' + one.set if one.set else ''} {told_value(one)}, {one.bound}"
        for one in gates
    )


def _significant(condition: ConditionConfig, results: Results) -> Finding:
    assert condition.significant is not None
    data = _json(results[condition.significant].folder.output / "comparison_data.json")
    metric = (condition.metric or "pass@1").replace("accepted_at_", "pass@").replace("_at_", "@")
    rows = [
        row
        for row in data["rows"]
        if row["metric"] == metric
        and row["stratum"] is None
        and condition.set in (None, row["set"])
        and condition.arm in (None, row["arm"])
    ]
    if not rows:
        return "INCONCLUSIVE", f"the comparison has no row of {metric} there"
    good = {"BETTER"} if condition.finding == "better" else {"BETTER", "SAME"}
    verdicts: list[Verdict] = [
        "PASS" if row["verdict"] in good else _against(row["verdict"]) for row in rows
    ]
    return worst(verdicts), "; ".join(map(_told_row, rows))


def _against(verdict: str) -> Verdict:
    """Return the verdict of a row without the wanted finding."""
    return "FAIL" if verdict in ("WORSE", "SAME") else "INCONCLUSIVE"


def _told_row(row: dict[str, Any]) -> str:
    change = row["difference"]
    told = "no change" if change is None else f"{change['value']:+.3f}"
    if change is not None and None not in (change["low"], change["high"]):
        told += f" ({change['low']:+.3f} to {change['high']:+.3f})"
    p = "" if row["p_corrected"] is None else f", corrected p {row['p_corrected']:.2g}"
    return f"{row['arm']} on {row['set']}: {row['metric']} {told}{p}: {row['verdict']}"


def _seeds(condition: ConditionConfig, results: Results) -> Finding:
    first, *others = condition.seeds
    for other in others:
        difference = seed_difference(results, first, other)
        if difference is not None:
            return "FAIL", difference
    stage = results[first].stage
    if not isinstance(stage, MeasuringStage):
        return "PASS", f"{len(condition.seeds)} seeds are done"
    told = []
    for name in stage.sets:
        values = [_accepted(results[one].folder.output / name) for one in condition.seeds]
        known = [one for one in values if one is not None]
        if len(known) < len(values):
            return "INCONCLUSIVE", f"a seed has no scored sample of {name}"
        told.append(
            f"accepted_at_1 of {name}: mean {fmean(known):.3f}, "
            f"standard deviation {stdev(known):.3f} over {len(known)} seeds"
        )
    return "PASS", "; ".join(told)


def seed_difference(results: Results, first: str, other: str) -> str | None:
    """Return the difference of two stages apart from a seed; None if a seed alone differs."""
    ours, theirs = (_without_seed(results, one) for one in (first, other))
    if ours[0] != theirs[0]:
        return f"{first} and {other} differ in more than a seed"
    if ours[1] == theirs[1]:
        return f"{first} and {other} have the same seed"
    return None


def _without_seed(results: Results, name: str) -> tuple[object, object]:
    """Return a stage's settings without seeds, and its seeds; with those of its policy."""
    stage = results[name].stage
    values = stage.model_dump(
        mode="json", exclude={"gates", "expected_minutes", "after", "skip_when_short"}
    )
    seeds: dict[str, object] = {}
    sections = ("overrides",) if isinstance(stage, TrainStage) else ("protocol", "options")
    for section in sections:
        if "seed" in values.get(section, {}):
            seeds[section] = values[section].pop("seed")
    policy = values.get("policy")
    if isinstance(policy, str) and policy.startswith(STAGE):
        values["policy"], seeds["policy"] = _without_seed(results, policy.removeprefix(STAGE))
    return json.dumps(values, sort_keys=True), json.dumps(seeds, sort_keys=True)


def _accepted(folder: Path) -> float | None:
    found = _json(folder / "metrics.json")["overall"]["accepted_at_1"]
    return None if found is None else float(found["value"])


def _error_analysis(condition: ConditionConfig, results: Results) -> Finding:
    assert condition.error_analysis is not None
    one = results[condition.error_analysis]
    assert isinstance(one.stage, MeasuringStage)
    told = []
    for name in one.stage.sets:
        file = one.folder.output / "qa" / f"{name}.jsonl"
        if not file.exists() or not file.stat().st_size:
            return "FAIL", f"there is no {file.name} of samples for people"
        outcomes = _json(one.folder.output / name / "metrics.json")["overall"]["outcomes"]
        counts = ", ".join(f"{outcome} {number}" for outcome, number in outcomes.items())
        told.append(f"{name}: {counts}; samples of each in qa/{name}.txt")
    return "PASS", "; ".join(told)


def _reproduce(condition: ConditionConfig, results: Results) -> Finding:
    assert condition.reproduce is not None
    found = stored_reproduction(results[condition.reproduce].folder)
    if found is None:
        return "INCONCLUSIVE", "not tried yet: `assay pipeline reproduce`"
    return found.verdict, found.reason


_RULES: dict[str, Callable[[ConditionConfig, Results], Finding]] = {
    "done": _done,
    "gate": _gate,
    "significant": _significant,
    "seeds": _seeds,
    "error_analysis": _error_analysis,
    "reproduce": _reproduce,
}


def _json(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_bytes())
    return found
