"""Markdown tables of estimates."""

from collections.abc import Iterable, Iterator, Sequence

from assay_judge.calibration_record import Estimate


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table's lines, then an empty line."""
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        yield "| " + " | ".join(_cell(text) for text in row) + " |"
    yield ""


def _cell(text: str) -> str:
    """Return the text escaped for a cell: a failure's message may hold any character."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


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
