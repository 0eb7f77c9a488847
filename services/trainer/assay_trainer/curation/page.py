"""A survey in a terminal, and as a page of HTML that needs no other file."""

import io
from collections.abc import Iterator
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from assay_shared.errors import Conflict
from assay_shared.runs.run_folder import write_atomically
from assay_shared.text.html_pages import picture_url, templates_in
from assay_shared.text.markdown import visible
from assay_trainer.curation.survey import Lengths, ShownRow, Survey

matplotlib.use("Agg")
_TEMPLATES = Path(__file__).parent / "templates"
_DOCTYPE = b"<!doctype html>"
_MAX_SHOWN = 2000
_BINS = 40
_COLOUR, _LIMIT_COLOUR = "#2563eb", "#b91c1c"


def refuse_other_file(path: Path) -> None:
    """Check that a page may be written to a path.

    Raises:
        Conflict: there is something else than a page.
    """
    is_page = False
    if path.is_file():
        with path.open("rb") as file:
            is_page = file.read(len(_DOCTYPE)).lower() == _DOCTYPE
    if path.exists() and not is_page:
        raise Conflict(f"{path} exists and is not a page of HTML", field="--html")


def write_page(found: Survey, limit: int | None, path: Path) -> None:
    """Write the page of a survey."""
    # Lengths that are all the same make no picture.
    drawn = [one for one in found.lengths if len(set(one.values)) > 1]
    pictures = {f"{one.part}, in {one.unit}": _histogram(one, limit) for one in drawn}
    page = (
        templates_in(_TEMPLATES)
        .get_template("survey.html.j2")
        .render(found=found, limit=limit, pictures=pictures)
    )
    write_atomically(path, page)


def _histogram(lengths: Lengths, limit: int | None) -> str:
    """Return a picture of lengths as a data URL."""
    figure = Figure(figsize=(6.4, 2.4), layout="constrained")
    axes = figure.subplots()
    axes.hist(lengths.values, bins=_BINS, color=_COLOUR)
    axes.set_xlabel(lengths.unit)
    axes.set_ylabel("rows")
    if limit is not None and limit <= max(lengths.values):
        axes.axvline(limit, color=_LIMIT_COLOUR)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return picture_url(written.getvalue())


def lines_of(found: Survey, limit: int | None) -> Iterator[str]:
    """Yield the lines of a survey for a terminal; signs that move a cursor are made visible."""
    for row in found.rows:
        yield from _row_lines(row)
    yield f"{found.num_rows} rows in {visible(found.name)}"
    for one in found.lengths:
        told = ", ".join(f"{name} {value}" for name, value in one.quantiles.items())
        over = f"; {one.share_over(limit):.1%} over {limit}" if limit is not None else ""
        yield f"{one.part}, {one.unit}: {told}{over}"
    for name in found.classes:
        parts = [f"{one} {number} ({share:.1%})" for one, number, share in found.balance(name)]
        yield visible(f"{name}: {', '.join(parts)}")


def _row_lines(row: ShownRow) -> Iterator[str]:
    yield f"--- row {row.number}: {visible(row.name)} ({row.role})"
    for message in row.messages:
        yield f"[{message['role']}]"
        yield _cut(message["content"])
    for name, text in row.answers.items():
        yield f"[{name}]"
        yield _cut(text)
    yield ", ".join(f"{name}: {visible(value)}" for name, value in row.facts.items())
    yield ""


def _cut(text: str) -> str:
    """Return the beginning of a text, its lines as they are."""
    cut = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... {len(text)} characters"
    return "\n".join(visible(line) for line in cut.split("\n"))
