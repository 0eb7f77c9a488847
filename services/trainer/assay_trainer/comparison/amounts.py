"""Amounts of change as a person writes them: `2pp`, `30%`, `40 tokens`, `0.5s`."""

import re
from dataclasses import dataclass
from enum import StrEnum

from assay_shared.errors import ConfigError
from assay_trainer.comparison.metrics import MetricUnit

_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(pp|%|tokens?|s)\s*\Z")
_MOST_SHOWN = 40
#: A share lies between 0 and 100 points.
_ALL_POINTS = 100


class ChangeKind(StrEnum):
    """Whether an amount is added, or is a share of the baseline's value."""

    ABSOLUTE = "absolute"
    RELATIVE = "relative"


@dataclass(frozen=True)
class ChangeAmount:
    """A size of change: of a share 0.02 is 2 points; a relative 0.3 is 30%."""

    value: float
    kind: ChangeKind
    written: str


def read_amount(written: object, field: str, unit: MetricUnit | None = None) -> ChangeAmount:
    """Return the amount in a text; `unit` is the metric's, if the amount is for one metric.

    Raises:
        ConfigError: the text is not an amount, or not one for the metric, or no share changes by
            more; names the field.
    """
    match = _AMOUNT.match(written) if isinstance(written, str) else None
    if match is None:
        shown = f"{written!r:.{_MOST_SHOWN}}"
        raise ConfigError(
            f"{shown} is not an amount",
            field=field,
            hint="2pp is two points of a share, 30% a relative change, 40 tokens, 0.5s",
        )
    number, sign = float(match[1]), match[2]
    if sign == "%":
        return ChangeAmount(number / 100, ChangeKind.RELATIVE, match[0].strip())
    if unit is not None and _unit_of(sign) is not unit:
        raise ConfigError(
            f"{match[0].strip()!r} is not an amount for this metric",
            field=field,
            hint={
                MetricUnit.SHARE: "a share changes by points (2pp), or relatively (30%)",
                MetricUnit.TOKENS: "tokens change by tokens (40 tokens), or relatively (30%)",
                MetricUnit.RATE: "rates change relatively (30%)",
                MetricUnit.SECONDS: "times change by seconds (0.5s), or relatively (30%)",
            }[unit],
        )
    if sign == "pp" and number >= _ALL_POINTS:
        raise ConfigError(
            f"no share changes by more than {match[0].strip()}",
            field=field,
            hint="give fewer points, such as 2pp",
        )
    value = number / 100 if sign == "pp" else number
    return ChangeAmount(value, ChangeKind.ABSOLUTE, match[0].strip())


def _unit_of(sign: str) -> MetricUnit:
    return {"pp": MetricUnit.SHARE, "s": MetricUnit.SECONDS}.get(sign, MetricUnit.TOKENS)
