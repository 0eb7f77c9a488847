"""Numbers and sentences of an ablation's report."""

from collections.abc import Sequence

from assay_trainer.ablation.decomposition.findings import PlantedChange
from assay_trainer.ablation.judging.findings import (
    AblationReport,
    ArmRow,
    ChangeRow,
    CountedAgainst,
    GoalRow,
    TableRow,
    ValueBounds,
)
from assay_trainer.ablation.judging.judge import LEAST_SEEDS
from assay_trainer.evaluation.metrics.failed_samples import failed_text


def number(value: float) -> str:
    """Return a number with enough digits to compare by."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def bounds(found: ValueBounds, *, signed: bool = False) -> str:
    """Return a value with its interval."""
    value = f"{found.value:+.3f}" if signed else number(found.value)
    if found.low is None or found.high is None:
        return value
    return f"{value} ({number(found.low)} to {number(found.high)})"


def detectable(row: ChangeRow) -> str:
    """Return the difference to be found."""
    if row.detectable is not None:
        return number(row.detectable)
    few = row.num_seeds < LEAST_SEEDS
    return f"nothing could have been {'decided' if few else 'shown'}"


def of_power(changes: Sequence[ChangeRow]) -> list[str]:
    """Return sentences on the detectable differences in the ranked metric."""
    rows = [row for row in changes if (row.set, row.metric) == (changes[0].set, changes[0].metric)]
    found = []
    if known := sorted(row.detectable for row in rows if row.detectable is not None):
        span = number(known[0])
        if number(known[-1]) != span:
            span = f"{span} to {number(known[-1])}, by comparison,"
        most = max(rows, key=lambda row: row.num_tasks)
        found.append(
            f"{most.num_tasks} tasks and {most.num_seeds} seeds would have shown a difference of "
            f"{span} in {most.metric} in 80% of repeats; smaller ones are missed."
        )
    for row in rows:
        if row.detectable is None:
            found.append(
                f"{row.arm} against {row.against}: nothing could have been shown in {row.metric} "
                f"with {row.num_tasks} tasks and {row.num_seeds} seeds: no difference that it can "
                f"have would be found in 80% of repeats. It takes more seeds."
            )
    return found


def failed(case: CountedAgainst | None) -> str:
    """Return the effect of failed samples on a verdict; "" without any."""
    if case is None:
        return ""
    told = failed_text(case.counts)
    if case.found is None:
        return f"{told}; with them counted against it, nothing can be compared"
    pairs = zip(case.counts, case.counted, strict=True)
    counted = [f"{value:g} for {one.name}" for one, value in pairs if one.num_failed]
    is_told = case.p_corrected is not None and case.p_corrected < 1
    p = f", p {p_text(case.p_corrected or 0)}" if is_told else ""
    what = "difference" if len(case.counts) > 1 else "value"
    found = bounds(case.found, signed=len(case.counts) > 1)
    return f"{told}; counted as {' and '.join(counted)}, the {what} is {found}{p}"


def verdict(row: ChangeRow | GoalRow) -> str:
    """Return a verdict with the effect of failed samples on it."""
    reasons = [row.reason] if isinstance(row, GoalRow) else []
    told = "; ".join(one for one in (*reasons, failed(row.failed)) if one)
    return f"{row.verdict}: {told}" if told else str(row.verdict)


def tasks(row: TableRow) -> str:
    """Return a value's number of tasks, with the failed samples of its policy."""
    return f"{row.num_tasks}; {failed_text([row.failed])}" if row.failed else str(row.num_tasks)


def p_text(p: float) -> str:
    return "below 0.001" if p < 0.001 else f"{p:.3f}"


def changes_of(arm: ArmRow) -> str:
    """Return what an arm changes."""
    found = [f"{name}: {old} -> {new}" for name, (old, new) in arm.changed.items()]
    return "; ".join(found) or ("nothing" if arm.previous else "the base")


def state_of(arm: ArmRow) -> str:
    """Return an arm's state with its reason."""
    return f"{arm.state}: {arm.reason}" if arm.reason else arm.state


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"


def share_text(arm: ArmRow) -> str:
    """Return the largest share of the gradient's direction that an arm changes."""
    if arm.decomposition is None or not arm.decomposition.batches:
        return "-"
    batches = arm.decomposition.batches
    largest = max(one.direction for one in batches)
    scales = [one.scale for one in batches]
    return f"{100 * largest:.2g}% (scale {min(scales):.3g} to {max(scales):.3g})"


def sentence(row: ChangeRow) -> str:
    """Return a change as a sentence with its verdict."""
    way = "higher" if row.change.value > 0 else "lower"
    change = f"{abs(row.change.value):.3f} {way}" if row.change.value else "equal"
    return (
        f"{row.arm} against {row.against}: {row.metric} of {row.set} is "
        f"{change}, p {p_text(row.p_corrected)} after Holm's correction: "
        f"{verdict(row)}."
    )


def fault_of_checks(controls: Sequence[PlantedChange]) -> str:
    """Return why the checks of an ablation do not work."""
    missed = [one.name for one in controls if not one.is_found]
    which = f"{', '.join(missed)} not found" if missed else "no batch is stored"
    return f"checks of this ablation do not work: {which}"


def lead(report: AblationReport) -> str:
    """Return the first sentence of a report."""
    if not report.controls_work:
        return f"The {fault_of_checks(report.controls)}. Nothing is ranked."
    if report.winner is not None:
        return f"{report.winner} has won: {report.winner_reason}."
    return f"No arm has won: {report.winner_reason}."
