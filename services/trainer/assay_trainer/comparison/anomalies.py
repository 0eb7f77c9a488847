"""Rules for signs of trouble: a condition on a change, its usual cause, and a remedy."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import Config, parse_config, read_yaml
from assay_trainer.comparison.amounts import ChangeAmount, ChangeKind, read_amount
from assay_trainer.comparison.expectations import ExpectationVerdict, known_metric, verdict_of
from assay_trainer.comparison.metrics import MetricUnit
from assay_trainer.comparison.results import Bounds, ComparedRow, FrozenResult, RowVerdict

DEFAULT_RULES = Path(__file__).parent / "rules.yaml"
_CHANGES = ("rises_by_less_than", "rises_by_more_than", "falls_by_more_than")
_Text = Annotated[str, Field(min_length=1)]


class AnomalyRule(Config):
    """A row of the rules' file: exactly one condition, where it applies, its cause and remedy."""

    name: _Text
    sets: tuple[_Text, ...] = ("*",)
    metric: str | None = None
    rises_by_less_than: str | None = None
    rises_by_more_than: str | None = None
    falls_by_more_than: str | None = None
    #: No share of the set changes by more.
    nothing_changes_by: str | None = None
    #: Only where the baseline's share is at most this.
    baseline_at_most: str | None = None
    cause: _Text
    remedy: _Text

    @model_validator(mode="after")
    def _one_condition(self) -> "AnomalyRule":
        changes = [name for name in _CHANGES if getattr(self, name) is not None]
        if len(changes) + (self.nothing_changes_by is not None) != 1:
            raise ValueError(f"a rule has one of {', '.join(_CHANGES)}, nothing_changes_by")
        if (self.metric is None) == bool(changes):
            raise ValueError("metric goes with a change, and nothing_changes_by is of all metrics")
        return self


class RuleFile(Config):
    """A file of rules."""

    rules: tuple[AnomalyRule, ...] = Field(min_length=1)


class RuleState(StrEnum):
    """The finding of a rule: the whole interval is in its range, outside, or across a bound."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    UNDECIDABLE = "undecidable"


class RuleResult(FrozenResult):
    """A rule applied to a set."""

    name: str
    set: str
    arm: str
    state: RuleState
    condition: str
    found: Bounds | None
    is_relative: bool
    unit: MetricUnit
    cause: str
    remedy: str


def read_rules(path: Path) -> tuple[AnomalyRule, ...]:
    """Return the rules in a YAML file.

    Raises:
        ConfigError: the file or a rule cannot be read; names the rule.
    """
    rules = parse_config(RuleFile, read_yaml(path), path.name).rules
    for rule in rules:
        condition(rule)
        _room(rule)
    return rules


def condition(rule: AnomalyRule) -> tuple[str, ChangeAmount, MetricUnit]:
    """Return the name of a rule's condition, its amount, and the unit of its metric.

    Raises:
        ConfigError: the amount or the metric cannot be read.
    """
    field = f"rules: {rule.name}"
    if rule.nothing_changes_by is not None:
        amount = read_amount(rule.nothing_changes_by, field, MetricUnit.SHARE)
        if amount.kind is ChangeKind.RELATIVE:
            raise ConfigError("nothing_changes_by is in points: 2pp", field=field)
        return "nothing_changes_by", amount, MetricUnit.SHARE
    name = next(one for one in _CHANGES if getattr(rule, one) is not None)
    unit = known_metric(rule.metric or "", field)[1]
    return name, read_amount(getattr(rule, name), f"{field}.{name}", unit), unit


def _room(rule: AnomalyRule) -> float:
    """Return the highest baseline to which a rule applies."""
    if rule.baseline_at_most is None:
        return inf
    amount = read_amount(rule.baseline_at_most, f"rules: {rule.name}.baseline_at_most")
    if amount.kind is not ChangeKind.RELATIVE:
        raise ConfigError("baseline_at_most is a share: 80%", field=f"rules: {rule.name}")
    return amount.value


def apply_rules(
    rules: Iterable[AnomalyRule], rows: Sequence[ComparedRow], arms: Iterable[str]
) -> list[RuleResult]:
    """Return each rule's finding for each arm and set to which it applies."""
    names, whole = list(arms), [row for row in rows if row.stratum is None]
    sets = list(dict.fromkeys(row.set for row in whole))
    found = []
    for rule in rules:
        for arm in names:
            for set_name in sets:
                if _is_of(rule, set_name):
                    own = [row for row in whole if (row.arm, row.set) == (arm, set_name)]
                    result = _applied(rule, own)
                    found += [result] if result is not None else []
    return found


def unused_rules(
    rules: Iterable[AnomalyRule], rows: Iterable[ComparedRow], found: Iterable[RuleResult]
) -> list[str]:
    """Return a sentence on each rule that is not in `found`: it could be checked nowhere."""
    sets, used = list(dict.fromkeys(row.set for row in rows)), {one.name for one in found}
    sentences = []
    for rule in (one for one in rules if one.name not in used):
        if any(_is_of(rule, name) for name in sets):
            why = "no set that it names has the metric on both sides, and a baseline with room"
        else:
            why = f"it names {', '.join(rule.sets)}, and the sets are {', '.join(sets)}"
        sentences.append(f"The rule {rule.name!r} was not checked: {why}.")
    return sentences


def _is_of(rule: AnomalyRule, set_name: str) -> bool:
    return any(fnmatchcase(set_name.lower(), one.lower()) for one in rule.sets)


def _applied(rule: AnomalyRule, rows: Sequence[ComparedRow]) -> RuleResult | None:
    """Return a rule's finding in the rows of a set and an arm; None if it does not apply."""
    name, amount, unit = condition(rule)
    if name == "nothing_changes_by":
        return _nothing_changes(rule, rows, amount)
    metric = known_metric(rule.metric or "", rule.name)[0]
    row = next((one for one in rows if one.metric == metric), None)
    if row is None or row.baseline is None or row.baseline.value > _room(rule):
        return None
    is_relative = amount.kind is ChangeKind.RELATIVE
    words = f"{row.title} {name.replace('_', ' ')} {amount.written}"
    if row.of_machine:
        return _result(rule, row, RuleState.UNDECIDABLE, words, None, is_relative, unit)
    bounds = row.bounds(is_relative=is_relative)
    if bounds is None:
        return None
    low, high = {
        "rises_by_less_than": (-inf, amount.value),
        "rises_by_more_than": (amount.value, inf),
        "falls_by_more_than": (-inf, -amount.value),
    }[name]
    state = {
        ExpectationVerdict.MET: RuleState.HOLDS,
        ExpectationVerdict.NOT_MET: RuleState.DOES_NOT_HOLD,
        ExpectationVerdict.UNDECIDABLE: RuleState.UNDECIDABLE,
    }[verdict_of(bounds.interval, low, high)]
    return _result(rule, row, state, words, bounds, is_relative, unit)


def _nothing_changes(
    rule: AnomalyRule, rows: Sequence[ComparedRow], amount: ChangeAmount
) -> RuleResult | None:
    """Return if all shares of a set stay within an amount; their interval is the widest bounds."""
    shares = [row for row in rows if row.unit is MetricUnit.SHARE and row.difference and row.test]
    if not shares:
        return None
    known = [row.bounds(is_relative=False) for row in shares]
    intervals = [one.interval for one in known if one is not None]
    is_within = all(-amount.value <= one.low and one.high <= amount.value for one in intervals)
    has_changed = any(row.verdict in (RowVerdict.BETTER, RowVerdict.WORSE) for row in rows) or any(
        one.low > amount.value or one.high < -amount.value for one in intervals
    )
    state = RuleState.UNDECIDABLE
    if is_within:
        state = RuleState.HOLDS
    elif has_changed:
        state = RuleState.DOES_NOT_HOLD
    words = f"no share changes by more than {amount.written}"
    return _result(rule, shares[0], state, words, None, False, MetricUnit.SHARE)


def _result(
    rule: AnomalyRule,
    row: ComparedRow,
    state: RuleState,
    words: str,
    bounds: Bounds | None,
    is_relative: bool,
    unit: MetricUnit,
) -> RuleResult:
    return RuleResult(
        name=rule.name,
        set=row.set,
        arm=row.arm,
        state=state,
        condition=words,
        found=bounds,
        is_relative=is_relative,
        unit=unit,
        cause=rule.cause,
        remedy=rule.remedy,
    )
