"""Numbers of a comparison as people read them."""

from collections.abc import Iterable

from assay_trainer.comparison.expectations import ExpectationResult, ExpectationVerdict
from assay_trainer.comparison.metrics import MetricUnit
from assay_trainer.comparison.results import Bounds, ComparedRow, SeedSpread
from assay_trainer.evaluation.metrics.failed_samples import FailedCount, failed_text

_NOTHING = "-"


def value_text(unit: MetricUnit, value: float) -> str:
    """Return a value with its unit: 43.1%, 238, 0.32 s."""
    if unit is MetricUnit.SHARE:
        return f"{100 * value:.1f}%"
    if unit is MetricUnit.SECONDS:
        return f"{value:#.3g} s"
    if unit is MetricUnit.RATE:
        return f"{value:#.3g} /s"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def side_text(row: ComparedRow, bounds: Bounds | None, seeds: SeedSpread | None) -> str:
    """Return a side's value; of several seeds, with their deviation and number."""
    if bounds is None:
        return _NOTHING
    if seeds is None or seeds.std is None:
        return value_text(row.unit, bounds.value)
    return (
        f"{value_text(row.unit, bounds.value)} (std {value_text(row.unit, seeds.std)}, "
        f"{len(seeds.values)} seeds)"
    )


def sides(row: ComparedRow) -> tuple[str, str]:
    """Return the texts of the baseline and of the arm."""
    return (
        side_text(row, row.baseline, row.seeds_baseline),
        side_text(row, row.value, row.seeds_arm),
    )


def change_text(bounds: Bounds | None, is_relative: bool, unit: MetricUnit) -> str:
    """Return a change with its interval: +13.8 pp (+5.9 to +21.4)."""
    if bounds is None:
        return _NOTHING
    low, high = (
        _bound(bounds.low, is_relative, unit, "-"),
        _bound(bounds.high, is_relative, unit, "+"),
    )
    value = _number(bounds.value, is_relative, unit)
    name = _unit_name(is_relative, unit)
    if bounds.low is None and bounds.high is None:
        return f"{value}{name}"
    return f"{value}{name} ({low} to {high})"


def row_change(row: ComparedRow) -> str:
    """Return a row's change with its interval, in points or relatively."""
    return change_text(row.headline, row.is_relative, row.unit)


def failed(row: ComparedRow, baseline: str) -> str:
    """Return the effect of failed samples on a row's verdict; "" without any."""
    case = row.failed
    if case is None:
        return ""
    counts = (
        FailedCount(
            name=baseline, num_failed=case.baseline_failed, num_samples=case.baseline_samples
        ),
        FailedCount(name=row.arm, num_failed=case.arm_failed, num_samples=case.arm_samples),
    )
    pairs = zip(counts, (case.baseline_counted, case.arm_counted), strict=True)
    counted = [
        f"{value:g}{_solved(row, one)} for {one.name}" for one, value in pairs if one.num_failed
    ]
    change = change_text(case.against, row.is_relative, row.unit)
    p = f", p {p_text(case.p_corrected)}" if (case.p_corrected or 1) < 1 else ""
    told = (
        f"{failed_text(counts)}; counted as {' and '.join(counted)}, the difference is {change}{p}"
    )
    is_open = case.verdict_without is not row.verdict
    return f"{told}; {case.verdict_without} by the scored samples alone" if is_open else told


def _solved(row: ComparedRow, side: FailedCount) -> str:
    """Return whether failed samples of a side count as solved, for a cost per solved."""
    if not row.metric.endswith("_per_solved") or row.headline is None:
        return ""
    is_low = (row.headline.value > 0) == (side.name == row.arm)
    return ", solved," if is_low else ", not solved,"


def verdict(row: ComparedRow, baseline: str) -> str:
    """Return a verdict with the effect of failed samples on it."""
    told = failed(row, baseline)
    return f"{row.verdict}: {told}" if told else str(row.verdict)


def found_text(one: ExpectationResult) -> str:
    """Return what an expectation found; if it is past at_most; what would decide an open one."""
    if one.reason is not None:
        return one.reason
    found = change_text(one.found, one.is_relative, one.unit)
    if one.is_open_by_failures:
        return f"{found}; the failed samples decide"
    if one.is_beyond:
        return f"{found}; beyond at_most"
    if one.verdict is not ExpectationVerdict.UNDECIDABLE:
        return found
    if one.tasks_to_decide is None:
        return f"{found}; over a million tasks would be needed"
    return f"{found}; about {one.tasks_to_decide:,} tasks would decide"


def amount_text(row: ComparedRow, amount: float | None) -> str:
    """Return the size of a change in the row's terms: 6.1 pp, 17%."""
    if amount is None:
        return _NOTHING
    return f"{100 * amount:.0f}%" if row.is_relative else f"{100 * amount:.1f} pp"


def _number(value: float, is_relative: bool, unit: MetricUnit) -> str:
    if is_relative or unit is MetricUnit.SHARE:
        return f"{100 * value:+.1f}"
    return f"{value:+.3g}" if unit is MetricUnit.SECONDS else f"{value:+.1f}"


def _bound(value: float | None, is_relative: bool, unit: MetricUnit, sign: str) -> str:
    return f"{sign}∞" if value is None else _number(value, is_relative, unit)


def _unit_name(is_relative: bool, unit: MetricUnit) -> str:
    if is_relative:
        return "%"
    return {
        MetricUnit.SHARE: " pp",
        MetricUnit.TOKENS: " tokens",
        MetricUnit.SECONDS: " s",
        MetricUnit.RATE: " /s",
    }[unit]


def p_text(p: float | None) -> str:
    """Return a p: 0.027, or <0.001."""
    if p is None:
        return _NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.9995 else "1"


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence lists them: a, b and c."""
    *first, last = list(names)
    return f"{', '.join(first)} and {last}" if first else last


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 task, 2 tasks."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
