"""The table of a comparison in a terminal."""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from assay_shared.text.markdown import visible
from assay_trainer.comparison.comparing import ComparisonData
from assay_trainer.comparison.expectations import ExpectationVerdict
from assay_trainer.comparison.report.words import found_text, row_change, sides
from assay_trainer.comparison.results import RowVerdict

_COLOURS = {
    RowVerdict.BETTER: "green",
    RowVerdict.WORSE: "red",
    RowVerdict.SAME: "cyan",
    RowVerdict.INCONCLUSIVE: "yellow",
    RowVerdict.NEW: "blue",
}
_EXPECTED_COLOURS = {
    ExpectationVerdict.MET: "green",
    ExpectationVerdict.NOT_MET: "red",
    ExpectationVerdict.UNDECIDABLE: "yellow",
}


def tables(data: ComparisonData) -> Iterator[Table]:
    """Yield a table for each arm, and one of the expectations."""
    for arm in data.arms:
        yield _rows(data, arm)
    if data.expectations:
        yield _expectations(data)


def _rows(data: ComparisonData, arm: str) -> Table:
    table = Table(title=visible(f"{arm} against {data.baseline}"), title_justify="left")
    for name in ("set", "metric"):
        table.add_column(name, overflow="fold")
    for name in (data.baseline, arm, f"difference ({100 * data.confidence:g}% interval)"):
        table.add_column(visible(name), justify="right", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    last = ""
    for row in (one for one in data.rows if one.arm == arm):
        if last and row.place != last:
            table.add_section()
        colour = _COLOURS.get(row.verdict)
        verdict = f"[{colour}]{row.verdict}[/]" if colour else str(row.verdict)
        name = visible(row.place) if row.place != last else ""
        table.add_row(_plain(name), row.title, *sides(row), row_change(row), verdict)
        last = row.place
    return table


def _expectations(data: ComparisonData) -> Table:
    table = Table(title="Expectations", title_justify="left")
    for name in ("metric", "arm", "expected", "found", "verdict"):
        table.add_column(name, overflow="fold")
    for one in data.expectations:
        colour = _EXPECTED_COLOURS[one.verdict]
        found = found_text(one)
        table.add_row(
            _plain(one.key), _plain(one.arm), one.expected, found, f"[{colour}]{one.verdict}[/]"
        )
    return table


def _plain(text: str) -> str:
    """Return a text in which rich sees no markup."""
    return escape(visible(text))
