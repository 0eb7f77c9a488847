"""Markdown tables of estimates."""

from collections.abc import Iterable, Iterator, Sequence

from assay_judge.calibration_record import Estimate


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table's lines, with an empty one after it."""
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        yield "| " + " | ".join(_cell(text) for text in row) + " |"
    yield ""


def _cell(text: str) -> str:
    """A failure's message may hold anything."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def number(estimate: Estimate | None) -> str:
    """Format an estimate with its interval."""
    if estimate is None:
        return "not measurable"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def percent(estimate: Estimate | None) -> str:
    """Format a share with its interval."""
    if estimate is None:
        return "not measurable"
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"
