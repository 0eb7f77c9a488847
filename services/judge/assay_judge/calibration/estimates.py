"""Estimates as texts."""

from assay_judge.calibration_record import Estimate


def number(estimate: Estimate | None) -> str:
    """Return an estimate with its interval, as text."""
    if estimate is None:
        return "not measurable"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def percent(estimate: Estimate | None) -> str:
    """Return a share with its interval, in percent, as text."""
    if estimate is None:
        return "not measurable"
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"
