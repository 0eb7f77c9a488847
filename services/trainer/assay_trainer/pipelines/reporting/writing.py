"""Writes the report of a pipeline: a page, Markdown, plain text, JSON and the register."""

from collections.abc import Iterator
from pathlib import Path

from assay_shared.runs.run_folder import write_atomically, write_json
from assay_shared.text.html_pages import picture_url, templates_in
from assay_shared.text.markdown import table, visible
from assay_trainer.pipelines.reporting.pictures import all_pictures
from assay_trainer.pipelines.reporting.register import register_of
from assay_trainer.pipelines.reporting.state import as_values
from assay_trainer.pipelines.reporting.tables import ReportTable, all_tables, decided_levels
from assay_trainer.pipelines.runner import Pipeline

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(pipeline: Pipeline, folder: Path | None = None) -> Path:
    """Write report.html, .md, .txt, .json and register.json; return the path of the page.

    They lie in the pipeline's folder, or in another one.
    """
    folder = folder or pipeline.folder
    folder.mkdir(parents=True, exist_ok=True)
    tables, lead = all_tables(pipeline), list(lead_of(pipeline))
    write_atomically(folder / "report.md", "\n".join(_markdown(pipeline, tables, lead)))
    write_atomically(folder / "report.txt", "\n".join(_plain(pipeline, tables, lead)))
    shown = {table.title: table.as_values() for table in tables}
    levels = [one.model_dump(mode="json") for one in decided_levels(pipeline)]
    values = as_values(pipeline) | {"levels": levels, "tables": shown}
    write_json(folder / "report.json", values)
    write_json(folder / "register.json", register_of(pipeline))
    page = folder / "report.html"
    pictures = {title: picture_url(png) for title, png in all_pictures(pipeline).items()}
    environment = templates_in(_TEMPLATES)
    values = {"name": pipeline.config.name, "lead": lead, "tables": tables, "pictures": pictures}
    write_atomically(page, environment.get_template("report.html.j2").render(values))
    return page


def lead_of(pipeline: Pipeline) -> Iterator[str]:
    """Yield the sentences that a reader needs first."""
    done = [one for one in pipeline.stages.values() if one.record is not None]
    yield f"{len(done)} of {len(pipeline.stages)} stages are done."
    for level in decided_levels(pipeline):
        bad = next((one for one in level.conditions if one.verdict == level.verdict), None)
        why = "" if level.verdict == "PASS" or bad is None else f": {bad.condition}: {bad.reason}"
        yield f"Level {level.level}: {level.verdict}{why}."
    spent = pipeline.spent()
    if pipeline.config.budget is not None:
        yield f"Spent with all attempts: {spent:.2f} of {pipeline.config.budget.money:.2f}."
    elif pipeline.config.price_per_hour:
        yield f"Spent with all attempts: {spent:.2f}."


def _markdown(pipeline: Pipeline, tables: list[ReportTable], lead: list[str]) -> Iterator[str]:
    yield f"# {pipeline.config.name}"
    yield ""
    yield from (f"- {visible(one)}" for one in lead)
    yield ""
    for one in tables:
        yield from (f"## {one.title}", "", *table(one.columns, one.rows))
        if one.note:
            yield from (one.note, "")


def _plain(pipeline: Pipeline, tables: list[ReportTable], lead: list[str]) -> Iterator[str]:
    """Yield the tables with columns of fixed width."""
    yield pipeline.config.name
    yield from (f"  {visible(one)}" for one in lead)
    for one in tables:
        yield from ("", one.title.upper())
        rows = [one.columns, *one.rows]
        cells = [[" ".join(visible(cell).split()) for cell in row] for row in rows]
        widths = [max(len(row[at]) for row in cells) for at in range(len(one.columns))]
        for row in cells:
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            yield "  ".join(padded).rstrip()
        if one.note:
            yield one.note
    yield ""
