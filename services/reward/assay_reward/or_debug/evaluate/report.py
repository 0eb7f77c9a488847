"""An evaluation as text: every headline with the results of the trivial baselines."""

from collections.abc import Iterable, Sequence

from assay_reward.or_debug.evaluate.baselines import TRIVIAL
from assay_reward.or_debug.evaluate.intervals import CellEstimate
from assay_reward.or_debug.evaluate.summary import OVERALL, CellSummary, EvaluationSummary

HEADLINES = ("rr@5", "faithful")
#: Metrics shown for the policy, cell by cell; all other metrics are in the JSON.
COLUMNS = (
    "rr@1",
    "rr@5",
    "faithful",
    "op",
    "diagnosis_recall",
    "diagnosis_precision",
    "diagnosis_iis_recall",
    "claim_irreducible",
    "rows_kept",
    "steps",
    "tokens",
)
_WITH_INTERVAL = ("rr@1", "rr@5", "faithful")
FIGURES = ("headlines.png", "recovery.png", "gradient.png")


def markdown(evaluation: EvaluationSummary) -> str:
    """Return the whole report; its figures are in the same folder."""
    return "\n".join(_lines(evaluation)) + "\n"


def _lines(evaluation: EvaluationSummary) -> Iterable[str]:
    yield f"# OR debugging: {evaluation.policy}"
    yield ""
    yield "Means over tasks with 95 % intervals (exact for shares of tasks, bootstrap for the"
    yield "rest). Episodes that failed, because a service or solver did, are in no mean; they are"
    yield "counted separately."
    yield ""
    yield "## By cell"
    yield ""
    yield from _table(("cell", "episodes", "failed", *COLUMNS), _cell_rows(evaluation))
    yield ""
    yield "## Compared with the baselines"
    yield ""
    yield "A metric on which a trivial baseline does as well does not tell policies apart."
    yield ""
    for metric in HEADLINES:
        yield f"**{metric}**"
        yield ""
        yield from _table(("cell", *evaluation.policies), _baseline_rows(evaluation, metric))
        yield ""
    yield "## Difficulty"
    yield ""
    yield from _table(("difficulty", "target rr@5", "found", "finding"), _gradient(evaluation))
    yield ""
    yield from (f"![{name.partition('.')[0]}]({name})" for name in FIGURES)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _cell_rows(evaluation: EvaluationSummary) -> Iterable[list[str]]:
    for cell in evaluation.cell_names:
        summary = evaluation.of(evaluation.policy, cell)
        assert summary is not None
        shown = [shown_metric(summary, name, name in _WITH_INTERVAL) for name in COLUMNS]
        yield [cell, str(summary.num_episodes), str(summary.num_failed), *shown]


def _baseline_rows(evaluation: EvaluationSummary, metric: str) -> Iterable[list[str]]:
    for cell in evaluation.cell_names:
        summaries = [evaluation.of(policy, cell) for policy in evaluation.policies]
        yield [
            cell,
            *(shown_metric(one, metric, cell == OVERALL) if one else "" for one in summaries),
        ]


def headline_rows(evaluation: EvaluationSummary) -> Iterable[list[str]]:
    """Yield each cell's headlines, each with the best trivial baseline, for a terminal."""
    for cell in evaluation.cell_names:
        summary = evaluation.of(evaluation.policy, cell)
        assert summary is not None
        shown_pairs = [
            text
            for metric in HEADLINES
            for text in (
                _short(summary.metrics.get(metric)),
                _best_trivial(evaluation, cell, metric),
            )
        ]
        yield [cell, str(summary.num_episodes), str(summary.num_failed), *shown_pairs]


def _short(found: CellEstimate | None) -> str:
    return f"{found.mean:.2f}  {found.low:.2f}-{found.high:.2f}" if found else ""


def _best_trivial(evaluation: EvaluationSummary, cell: str, metric: str) -> str:
    others = [evaluation.of(policy, cell) for policy in evaluation.policies if policy in TRIVIAL]
    means = [one.metrics[metric].mean for one in others if one and metric in one.metrics]
    return f"{max(means):.2f}" if means else ""


def _gradient(evaluation: EvaluationSummary) -> Iterable[list[str]]:
    for check in evaluation.gradient:
        found = shown(check.found, True) if check.found else ""
        yield [check.difficulty, f"{check.low:.0%} to {check.high:.0%}", found, check.told]


def shown_metric(summary: CellSummary, metric: str, with_interval: bool) -> str:
    """Return a metric of a cell as text; empty if no episode has it."""
    found = summary.metrics.get(metric)
    return shown(found, with_interval) if found else ""


def shown(found: CellEstimate, with_interval: bool) -> str:
    mean = f"{found.mean:.2f}"
    return f"{mean} ({found.low:.2f} to {found.high:.2f})" if with_interval else mean
