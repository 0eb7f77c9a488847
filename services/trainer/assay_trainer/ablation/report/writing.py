"""Writes report.md, report.html and report.json of an ablation; the JSON comes last."""

from pathlib import Path

from assay_shared.runs.run_folder import write_atomically
from assay_shared.text import markdown
from assay_shared.text.html_pages import picture_url, templates_in
from assay_trainer.ablation.ablation_folder import AblationFolder
from assay_trainer.ablation.judging.findings import AblationReport
from assay_trainer.ablation.report import pictures, words

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(report: AblationReport, folder: AblationFolder) -> None:
    """Write the three files."""
    environment = templates_in(_TEMPLATES)
    environment.filters |= {"cell": markdown.cell}
    common = {"report": report, "words": words}
    text = environment.get_template("ablation.md.j2").render(common)
    write_atomically(folder.path / "report.md", text)
    page = environment.get_template("ablation.html.j2").render(
        common | {"pictures": _pictures(report)}
    )
    write_atomically(folder.path / "report.html", page)
    write_atomically(folder.report, report.model_dump_json(indent=1) + "\n")


def _pictures(report: AblationReport) -> dict[str, str]:
    """Return the pictures as data URLs by their titles."""
    floors = {(one.set, one.metric): one.floor for one in report.noise}
    sets = list(dict.fromkeys(row.set for row in report.table))
    arms = [arm.name for arm in report.arms]
    drawn = {
        **{
            f"{metric} on {name}": pictures.values(report.table, metric, name)
            for name in sets[:1]
            for metric in report.metrics[:2]
        },
        "Differences between arms": pictures.changes(report.changes, floors),
        "What the settings change in the gradient": pictures.gradients(report),
        "Curves": pictures.curves(report.curves, arms),
    }
    return {title: picture_url(png) for title, png in drawn.items() if png is not None}
