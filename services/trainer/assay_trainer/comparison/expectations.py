"""Expected changes from a file, and if they were met: MET, NOT MET or UNDECIDABLE.

A key names a set and a metric, `humaneval.pass@1`, and maybe a stratum:
`math[family=algebra].pass@1`.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from pathlib import Path

from pydantic import model_validator

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import Config, parse_config, read_yaml
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.power import tasks_to_decide
from assay_trainer.comparison.amounts import ChangeAmount, ChangeKind, read_amount
from assay_trainer.comparison.metrics import ALIASES, MetricUnit, all_metrics
from assay_trainer.comparison.results import Bounds, ComparedRow, FrozenResult, RowVerdict

_KEY = re.compile(
    r"(?P<set>[^\[\]]+)(?:\[(?P<stratum>[^\[\]=]+=[^\[\]]+)\])?\.(?P<metric>[^.\[\]]+)\Z"
)


class ChangeDirection(StrEnum):
    """The direction of an expected change."""

    UP = "up"
    DOWN = "down"
    #: Neither up nor down by more than `within`.
    SAME = "same"
    #: Down by less than `within`; any rise is welcome.
    NOT_DOWN = "not_down"
    #: Up by less than `within`; any fall is welcome.
    NOT_UP = "not_up"


class ExpectationVerdict(StrEnum):
    """The finding: the whole interval agrees, the whole interval disagrees, or neither."""

    MET = "MET"
    NOT_MET = "NOT MET"
    UNDECIDABLE = "UNDECIDABLE"


class ExpectedChange(Config):
    """An entry of the file."""

    direction: ChangeDirection
    # Numbers are taken here to be refused with the units that they lack.
    within: str | int | float | None = None
    at_least: str | int | float | None = None
    at_most: str | int | float | None = None

    @model_validator(mode="after")
    def _sizes_fit(self) -> "ExpectedChange":
        has_within = self.direction in (
            ChangeDirection.SAME,
            ChangeDirection.NOT_DOWN,
            ChangeDirection.NOT_UP,
        )
        if has_within and self.within is None:
            raise ValueError(f"direction {self.direction} needs `within`: 2pp, for example")
        if has_within and (self.at_least or self.at_most):
            raise ValueError("at_least and at_most go with the directions up and down")
        if not has_within and self.within is not None:
            raise ValueError("within goes with the directions same, not_down and not_up")
        return self


@dataclass(frozen=True)
class Expectation:
    """An expected change of one metric: it lies between `low` and `high`."""

    key: str
    set: str
    stratum: str | None
    metric: str
    unit: MetricUnit
    kind: ChangeKind
    low: float
    high: float
    written: str
    direction: ChangeDirection


class ExpectationResult(FrozenResult):
    """An expectation with its verdict."""

    key: str
    arm: str
    expected: str
    verdict: ExpectationVerdict
    #: The change that decides, with bounds that hold whatever failed samples would have been;
    #: relative if the expectation is.
    found: Bounds | None
    is_relative: bool
    unit: MetricUnit
    num_tasks: int
    #: Tasks that would decide if value and spread stayed; null if over a million.
    tasks_to_decide: int | None = None
    #: NOT MET although the change goes as expected: it is larger than at_most.
    is_beyond: bool = False
    #: UNDECIDABLE, and decided by the scored samples alone.
    is_open_by_failures: bool = False
    #: Why there is no interval.
    reason: str | None = None


def read_expectations(path: Path) -> list[Expectation]:
    """Return the expectations in a YAML file.

    Raises:
        ConfigError: the file or an entry cannot be read; names the key.
    """
    found = [_expectation(str(key), value, path.name) for key, value in read_yaml(path).items()]
    if not found:
        raise ConfigError(f"{path} has no expectation")
    return found


def _expectation(key: str, value: object, source: str) -> Expectation:
    match = _KEY.match(key)
    if match is None:
        raise ConfigError(
            f"{key!r} in {source} does not name a metric", hint="SET.METRIC: humaneval.pass@1"
        )
    try:
        entry = parse_config(ExpectedChange, value, source)
    except ConfigError as error:
        field = f"{key}.{error.field}" if error.field else key
        raise ConfigError(error.message, field=field, hint=error.hint) from None
    metric, unit = known_metric(match["metric"], key)
    low, high, kind, written = _range(entry, key, unit)
    place = (key, match["set"], match["stratum"], metric)
    return Expectation(*place, unit, kind, low, high, written, entry.direction)


def known_metric(name: str, field: str) -> tuple[str, MetricUnit]:
    """Return the metric of that name, or of an alias, with its unit.

    Raises:
        ConfigError: there is no such metric; names the nearest.
    """
    resolved = ALIASES.get(name, name)
    number = re.fullmatch(r"pass@([1-9]\d{0,3})", resolved)
    if number is not None:
        return resolved, MetricUnit.SHARE
    units = {one.name: one.unit for one in all_metrics((1,))}
    if resolved not in units:
        close = difflib.get_close_matches(name, [*units, *ALIASES], n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"metrics: {', '.join(units)}"
        raise ConfigError(f"there is no metric {name!r}", field=field, hint=hint)
    return resolved, units[resolved]


def _range(
    entry: ExpectedChange, key: str, unit: MetricUnit
) -> tuple[float, float, ChangeKind, str]:
    """Return the range of expected changes, its kind, and the expectation in words."""
    amounts = {
        name: read_amount(written, f"{key}.{name}", unit)
        for name in ("within", "at_least", "at_most")
        if (written := getattr(entry, name)) is not None
    }
    kinds = {one.kind for one in amounts.values()}
    if len(kinds) > 1:
        raise ConfigError("at_least and at_most are of different kinds", field=key)
    kind = (
        kinds.pop()
        if kinds
        else ChangeKind.ABSOLUTE
        if unit is MetricUnit.SHARE
        else ChangeKind.RELATIVE
    )
    if kind is ChangeKind.ABSOLUTE and ALIASES.get(key.rpartition(".")[2], key).endswith(
        "_per_solved"
    ):
        raise ConfigError("a cost per solved changes relatively: 30%", field=key)
    words = "".join(f", {name.replace('_', ' ')} {one.written}" for name, one in amounts.items())
    low, high = _bounds(entry.direction, amounts)
    if low >= high:
        raise ConfigError("at_most must be above at_least", field=key)
    return low, high, kind, f"{str(entry.direction).replace('_', ' ')}{words}"


def _bounds(direction: ChangeDirection, amounts: dict[str, ChangeAmount]) -> tuple[float, float]:
    if "within" in amounts:
        within = amounts["within"].value
        return {
            ChangeDirection.SAME: (-within, within),
            ChangeDirection.NOT_DOWN: (-within, inf),
            ChangeDirection.NOT_UP: (-inf, within),
        }[direction]
    least = amounts["at_least"].value if "at_least" in amounts else 0.0
    most = amounts["at_most"].value if "at_most" in amounts else inf
    return (least, most) if direction is ChangeDirection.UP else (-most, -least)


def judge(
    expectations: Sequence[Expectation], rows: Sequence[ComparedRow], arms: Iterable[str]
) -> list[ExpectationResult]:
    """Return each expectation's verdict for each arm.

    Raises:
        ConfigError: a set, stratum or metric is in no evaluation; names the key.
    """
    places = {row.place for row in rows}
    for one in expectations:
        place = one.set if one.stratum is None else f"{one.set}[{one.stratum}]"
        if place not in places:
            close = difflib.get_close_matches(place, places, n=1, cutoff=0.5)
            hint = (
                f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(places))}"
            )
            if one.stratum is not None:
                hint += "; strata are made with --by TAG"
            raise ConfigError(f"no evaluation has {place}", field=one.key, hint=hint)
    return [_judged(one, rows, arm) for arm in arms for one in expectations]


def _judged(one: Expectation, rows: Sequence[ComparedRow], arm: str) -> ExpectationResult:
    row = next(
        (
            row
            for row in rows
            if (row.set, row.stratum, row.metric, row.arm)
            == (one.set, one.stratum, one.metric, arm)
        ),
        None,
    )
    is_relative = one.kind is ChangeKind.RELATIVE
    bounds = None if row is None else row.bounds(is_relative=is_relative)
    result = ExpectationResult(
        key=one.key,
        arm=arm,
        expected=one.written,
        verdict=ExpectationVerdict.UNDECIDABLE,
        found=bounds,
        is_relative=is_relative,
        unit=one.unit,
        num_tasks=0 if row is None else row.num_tasks,
    )
    if row is None or bounds is None:
        return result.model_copy(update={"reason": _reason(row, is_relative)})
    interval = bounds.interval
    verdict = verdict_of(interval, one.low, one.high)
    if verdict is not ExpectationVerdict.UNDECIDABLE:
        return result.model_copy(
            update={"verdict": verdict, "is_beyond": _is_beyond(one, interval)}
        )
    if row.failed is not None:
        alone = row.relative if is_relative else row.difference
        if alone is not None and verdict_of(alone.interval, one.low, one.high) is not verdict:
            return result.model_copy(update={"is_open_by_failures": True})
    limits = tuple(bound for bound in (one.low, one.high) if abs(bound) != inf)
    needed = tasks_to_decide(interval, limits, row.num_tasks)
    return result.model_copy(update={"tasks_to_decide": needed})


def _is_beyond(one: Expectation, interval: Interval) -> bool:
    """Return True if the whole interval is past at_most."""
    if one.direction is ChangeDirection.UP:
        return interval.low > one.high
    return one.direction is ChangeDirection.DOWN and interval.high < one.low


def verdict_of(interval: Interval, low: float, high: float) -> ExpectationVerdict:
    """Return if the interval lies within `low` to `high`, outside, or across a bound."""
    if low <= interval.low and interval.high <= high:
        return ExpectationVerdict.MET
    if interval.high < low or interval.low > high:
        return ExpectationVerdict.NOT_MET
    return ExpectationVerdict.UNDECIDABLE


def _reason(row: ComparedRow | None, is_relative: bool) -> str:
    if row is None:
        return "no evaluation tells this metric"
    if row.verdict is RowVerdict.NEW:
        return "the baseline has no such number"
    if row.verdict is RowVerdict.MISSING:
        return "the arm has no such number"
    if row.num_tasks == 0:
        return "there is no task with scored samples on both sides"
    if row.of_machine:
        return "it moves with the machine and its load, so no test can tell"
    if row.failed is not None and row.relative is not None:
        return "with its failed samples counted, there is no relative change"
    return "the baseline is 0, so there is no relative change" if is_relative else "no interval"
