"""An ablation's report in a terminal."""

from rich.console import Console
from rich.table import Table

from assay_shared.text.markdown import visible
from assay_trainer.ablation.judging.findings import AblationReport
from assay_trainer.ablation.report import words


def show_report(report: AblationReport, console: Console) -> None:
    """Print the lead, the values of every policy, the changes and the goals."""
    table = Table("policy", "metric", "value", "tasks")
    for value in report.table:
        shown = (value.policy, value.metric, words.bounds(value.value), words.tasks(value))
        table.add_row(*map(visible, shown))
    console.print(table)
    for arm in report.arms:
        rank = f"{arm.rank}. " if arm.rank else ""
        told = f"{rank}{arm.name}: {arm.state}: {arm.reason}"
        console.print(visible(told), markup=False, highlight=False, soft_wrap=True)
    lines = [
        *(words.sentence(row) for row in report.changes),
        *(f"goal: {one.goal}: {words.verdict(one)}" for one in report.goals),
        *report.notes,
        words.lead(report),
    ]
    for line in lines:
        console.print(visible(line), markup=False, highlight=False, soft_wrap=True)
