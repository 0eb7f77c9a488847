"""Numbers and sentences of an ablation's report."""

from assay_trainer.ablation.judging.findings import AblationReport, ArmRow, ChangeRow, ValueBounds


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
    return "nothing could have been shown" if row.detectable is None else number(row.detectable)


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
    return (
        f"{row.arm} against {row.against}: {row.metric} of {row.set} is "
        f"{abs(row.change.value):.3f} {way}, p {p_text(row.p_corrected)} after Holm's correction: "
        f"{row.verdict}."
    )


def lead(report: AblationReport) -> str:
    """Return the first sentence of a report."""
    if not report.controls_work:
        missed = [one.name for one in report.controls if not one.is_found]
        which = f": {', '.join(missed)} not found" if missed else ": no batch is stored"
        return f"The checks of this ablation do not work{which}. Nothing is ranked."
    if report.winner is not None:
        return f"{report.winner} has won: {report.winner_reason}."
    return f"No arm has won: {report.winner_reason}."
