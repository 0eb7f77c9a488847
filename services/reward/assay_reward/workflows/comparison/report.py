"""The table as Markdown, as JSON and as a page with traces. All text is escaped."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from assay_reward.workflows.comparison.candidates import CandidateKind
from assay_reward.workflows.comparison.plan import WorkflowComparison
from assay_reward.workflows.comparison.play_log import PlayLog
from assay_reward.workflows.comparison.samples import WorkflowSample
from assay_reward.workflows.comparison.table import RATES, CandidateRow, TableRules, make_table
from assay_reward.workflows.execution.picture import runs_page
from assay_reward.workflows.execution.run import WorkflowRun
from assay_shared.runs.run_folder import write_atomically
from assay_shared.statistics.interval import Interval

_HEADS: Final = (
    "workflow", "tasks", "accuracy", "self-consistency at equal tokens", "difference", "p",
    *RATES, "no score", "tokens", "calls", "money", "seconds",
)  # fmt: skip
_PLAIN: TypeAdapter[Any] = TypeAdapter(Any)
_NOTE: Final = (
    "Means of a sample. Samples without a score are in no mean. Self-consistency is the most "
    "frequent of k direct answers; between two k, the accuracy is on the line between both. Tokens "
    "are the executor's; what a policy writes is not among them."
)


def write_report(
    folder: Path, plan: WorkflowComparison, log: PlayLog, rules: TableRules
) -> list[CandidateRow]:
    """Write report.md, report.json and report.html into a folder; return the table's rows."""
    rows = make_table(plan.tasks, log.samples, plan.candidates, rules)
    num = len(log.samples)
    why = list(losses(log.samples))
    write_atomically(folder / "report.md", as_markdown(rows, rules, num, why))
    found = as_json(rows, rules, num) | {"losses": list(why)}
    write_atomically(folder / "report.json", json.dumps(found, indent=2))
    write_atomically(folder / "report.html", as_html(rows, rules, log.samples))
    return rows


def losses(samples: Mapping[str, Sequence[WorkflowSample]]) -> Iterator[str]:
    """Yield a line for each class of failures: their number, and the first one's message."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for task_id, found in samples.items():
        for one in found:
            if one.failure is not None:
                counts[one.failure] += 1
                first.setdefault(one.failure, f"{one.candidate} on {task_id}: {one.message}")
    for name, number in counts.most_common():
        yield f"{number} samples without a score for {name}; the first is {first[name]}"


def as_markdown(
    rows: Sequence[CandidateRow], rules: TableRules, num_tasks: int, why: Sequence[str] = ()
) -> str:
    """Return the claims, the table, and why samples have no score."""
    lines = ["# Workflows compared", "", *claims(rows), "", f"{num_tasks} tasks. {_NOTE}", ""]
    lines.append("Intervals: " + f"{rules.confidence:.0%}, over tasks.")
    lines += ["", f"| {' | '.join(_HEADS)} |", f"|{'---|' * len(_HEADS)}"]
    lines += [f"| {' | '.join(map(_cell, _cells(row)))} |" for row in rows]
    lines += ["", *(f"- {_cell(line)}" for line in why)]
    return "\n".join([*lines, ""])


def claims(rows: Sequence[CandidateRow]) -> list[str]:
    """Return a line for each learned and searched workflow, or what is missing."""
    found = [
        f"**{row.verdict}**: {row.name} beats self-consistency at equal tokens ({row.reason})."
        for row in rows
        if row.kind is not CandidateKind.FIXED
    ]
    return found or ["No learned workflow was compared."]


def as_json(
    rows: Sequence[CandidateRow], rules: TableRules, num_tasks: int
) -> dict[str, JsonValue]:
    """Return the table's numbers."""
    found: dict[str, JsonValue] = _PLAIN.dump_python(
        {"num_tasks": num_tasks, "rules": asdict(rules), "rows": [asdict(row) for row in rows]},
        mode="json",
    )
    return found


def as_html(
    rows: Sequence[CandidateRow],
    rules: TableRules,
    samples: Mapping[str, Sequence[WorkflowSample]],
) -> str:
    """Return the page: claims, table, and the kept runs with their time lines."""
    page = runs_page(list(_runs(samples)))
    heads = "".join(f"<th>{escape(name)}</th>" for name in _HEADS)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(row))}</tr>" for row in rows
    )
    said = "".join(f"<p>{escape(line.replace('**', ''))}</p>" for line in claims(rows))
    why = "".join(f"<li>{escape(line)}</li>" for line in losses(samples))
    table = (
        f"<h1>Workflows compared</h1>{said}<p>{len(samples)} tasks. {escape(_NOTE)} Intervals: "
        f"{rules.confidence:.0%}, over tasks.</p><div style='overflow-x:auto'>"
        f"<table border='1' cellpadding='4' style='border-collapse:collapse'>"
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<ul>{why}</ul>"
    )
    head, mark, rest = page.partition("<body>")
    return f"{head}{mark}{table}{rest}"


def _runs(
    samples: Mapping[str, Sequence[WorkflowSample]],
) -> Iterator[tuple[str, WorkflowRun, str]]:
    for task_id, found in samples.items():
        shown: set[str] = set()
        for one in found:
            played: Any = one.evidence.get("workflow") or {}
            if one.candidate in shown or "run" not in played:
                continue
            try:
                run = WorkflowRun.model_validate(played["run"])
            except ValidationError:
                continue
            shown.add(one.candidate)
            outcome = "no score" if one.is_right is None else ("wrong", "right")[one.is_right]
            yield f"{one.candidate}, {task_id}, {outcome}", run, str(played.get("source", ""))


def _cells(row: CandidateRow) -> list[str]:
    against = row.against
    votes = ""
    if against is not None:
        how = "" if against.is_equal else f", at {against.ratio:.2f} of the tokens"
        votes = f"{_interval(against.accuracy)} (k = {against.num_answers:.1f}{how})"
    lost = ", ".join(f"{number} {name}" for name, number in row.lost.items())
    return [
        row.name,
        str(row.num_tasks),
        _interval(row.accuracy),
        votes,
        "" if against is None else _interval(against.difference, sign="+"),
        "" if against is None else f"{against.p:.2g}",
        *(f"{row.rates[name]:.0%}" for name in RATES),
        f"{row.num_samples - row.num_scored} of {row.num_samples}" + (f": {lost}" if lost else ""),
        f"{row.costs['tokens']:.0f}",
        f"{row.costs['calls']:.2f}",
        f"{row.costs['money']:.3g}",
        f"{row.costs['seconds']:.2f}",
    ]


def _interval(found: Interval | None, sign: str = "") -> str:
    if found is None:
        return "none"
    form = f"{sign}.1f"
    return f"{100 * found.value:{form}} [{100 * found.low:{form}}, {100 * found.high:{form}}]"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
