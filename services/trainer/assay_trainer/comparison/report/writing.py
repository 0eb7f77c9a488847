"""Writes the files of a comparison: table, data, per-task values, summary and page."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from assay_shared.errors import InvalidInput
from assay_shared.runs.run_folder import write_atomically
from assay_shared.text import markdown
from assay_shared.text.html_pages import picture_url, templates_in
from assay_trainer.comparison.anomalies import RuleState
from assay_trainer.comparison.arms import ComparedArm, ComparedTask
from assay_trainer.comparison.comparing import ComparisonData
from assay_trainer.comparison.metrics import Metric, all_metrics
from assay_trainer.comparison.report import words
from assay_trainer.comparison.report.pictures import flip_bars, forest, outcome_bars
from assay_trainer.comparison.report.summary import summary_of, verdict_sentence
from assay_trainer.comparison.results import ComparedRow
from assay_trainer.evaluation.metrics.outcomes import accepted

DATA = "comparison_data.json"
TASKS = "comparison_tasks.jsonl"
_SUMMARY, _TABLE, _PAGE = "summary.txt", "comparison_table.md", "comparison.html"
_FILES = (TASKS, _SUMMARY, _TABLE, _PAGE, DATA)
_TEMPLATES = Path(__file__).parent / "templates"
_ERRORS = (
    "syntax_error",
    "runtime_error",
    "time_limit",
    "other_limit",
    "wrong_answer",
    "truncated",
)
_COSTS = ("tokens", "tokens_per_solved", "judging_s", "judging_s_per_solved", "samples_per_s")
_MOST_PANELS = 4


def check_output(folder: Path) -> None:
    """Check that a report may be written to a folder: a new or empty one, or that of a report.

    Raises:
        InvalidInput: it has files of something else, or it is a file.
    """
    if not folder.exists():
        return
    hint = "name a new folder"
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is a file", field="--output", hint=hint)
    names = {one.name for one in folder.iterdir() if not one.name.startswith(".")}
    others = names - set(_FILES)
    if others and DATA not in names:
        raise InvalidInput(
            f"{folder} has {min(others)}, and is not a report", field="--output", hint=hint
        )


def write_comparison(data: ComparisonData, arms: Sequence[ComparedArm], folder: Path) -> None:
    """Write all files; the data come last, so that a folder with them is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / TASKS, "".join(f"{line}\n" for line in _task_lines(data, arms)))
    write_atomically(folder / _SUMMARY, markdown.visible(summary_of(data)))
    environment = templates_in(_TEMPLATES)
    environment.filters |= {"code": markdown.code, "cell": markdown.cell}
    common = {"data": data, "words": words, "sections": _sections, "state": RuleState}
    common |= {"sentence": lambda arm: verdict_sentence(data, arm)}
    table = environment.get_template("comparison_table.md.j2").render(common)
    write_atomically(folder / _TABLE, table)
    page = environment.get_template("comparison.html.j2").render(
        common | {"pictures": _pictures(data)}
    )
    write_atomically(folder / _PAGE, page)
    # Validated again: rows were changed by copies, and a number must be finite here.
    checked = ComparisonData.model_validate(data.model_dump())
    write_atomically(folder / DATA, checked.model_dump_json(indent=1) + "\n")


def _sections(rows: Sequence[ComparedRow]) -> dict[str, list[ComparedRow]]:
    """Return the rows by part of the report."""
    found = {
        "Quality": [row for row in rows if row.metric not in (*_ERRORS, *_COSTS)],
        "Errors": [row for row in rows if row.metric in _ERRORS],
        "Costs": [row for row in rows if row.metric in _COSTS],
    }
    return {name: some for name, some in found.items() if some}


def _task_lines(data: ComparisonData, arms: Sequence[ComparedArm]) -> Iterator[str]:
    """Yield the values of each task of each arm, from which every row can be computed again."""
    names = dict.fromkeys(row.metric for row in data.rows)
    ks = [int(name.removeprefix("pass@")) for name in names if name.startswith("pass@")]
    metrics = [one for one in all_metrics({1, *ks}) if one.name in names and one.quantile is None]
    for arm in arms:
        for name in arm.set_names:
            seeds = [one.sets[name].tasks for one in arm.measurements if name in one.sets]
            strata = {row.stratum for row in data.rows if row.set == name and row.stratum}
            for id_, task in seeds[0].items():
                if not all(id_ in seed for seed in seeds):
                    continue
                values = [_values(metrics, seed[id_]) for seed in seeds]
                known = [key for key in values[0] if all(key in one for one in values)]
                line = {
                    "arm": arm.name,
                    "set": name,
                    "task": id_,
                    "strata": [
                        one for one in (f"{k}={v}" for k, v in task.tags.items()) if one in strata
                    ],
                    "num_failed": sum(seed[id_].num_failed for seed in seeds),
                    "values": {key: fmean(one[key] for one in values) for key in known},
                    "seeds": values,
                }
                yield json.dumps(line)


def _values(metrics: Sequence[Metric], task: ComparedTask) -> dict[str, float]:
    """Return a task's value of each metric that it tells; of a cost per solved, both sums."""
    found = {one.name: one.value(task) for one in metrics}
    found["solved"] = float(sum(map(accepted, task.samples)))
    return {name: value for name, value in found.items() if value is not None}


def _pictures(data: ComparisonData) -> dict[str, dict[str, str]]:
    """Return the pictures of each arm as data URLs, by title; `""` has those of all arms."""
    found: dict[str, dict[str, str]] = {}
    for arm in data.arms:
        rows = [row for row in data.rows if row.arm == arm]
        kept = [row.metric for row in rows if row.test is not None]
        quality = [name for name in dict.fromkeys(kept) if name not in (*_ERRORS, *_COSTS)]
        errors = [name for name in _ERRORS if name in kept]
        costs = [name for name in _COSTS if name in kept]
        drawn = {
            title: forest(rows, names[:_MOST_PANELS], data.confidence)
            for title, names in (("Quality", quality), ("Errors", errors), ("Costs", costs))
            if names
        }
        drawn["Turned answers"] = flip_bars([one for one in data.flips if one.arm == arm])
        found[arm] = _urls(drawn)
    found[""] = _urls({"How answers ended": outcome_bars(data)})
    return found


def _urls(drawn: dict[str, bytes | None]) -> dict[str, str]:
    return {title: picture_url(png) for title, png in drawn.items() if png is not None}
