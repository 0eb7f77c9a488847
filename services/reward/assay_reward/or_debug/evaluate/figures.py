"""Figures of an evaluation: headlines with the baselines, recovery by reply, difficulty."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay_reward.or_debug.episode.metrics import RECOVERY_REPLIES
from assay_reward.or_debug.evaluate.report import HEADLINES
from assay_reward.or_debug.evaluate.summary import OVERALL, CellSummary, EvaluationSummary

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
}
_POLICY_COLOUR, _TARGET_COLOUR = "#1f4e79", "#f2c14e"
_BASELINE_COLOURS = ("#8aa9c2", "#c98f6b", "#9bb38a", "#b79ac2", "#a3a3a3", "#d3b86b", "#7fb5b5")
_DOTS_PER_INCH = 150


def draw(evaluation: EvaluationSummary, folder: Path) -> None:
    """Write `headlines.png`, `recovery.png` and `gradient.png`."""
    with mpl.rc_context(_STYLE):
        for name, figure in (
            ("headlines.png", headlines(evaluation)),
            ("recovery.png", recovery(evaluation)),
            ("gradient.png", gradient(evaluation)),
        ):
            figure.savefig(folder / name, dpi=_DOTS_PER_INCH)


def headlines(evaluation: EvaluationSummary) -> Figure:
    """Return a figure of RR@5 and faithful recovery over all cells, the policy on top."""
    figure = Figure(figsize=(8, 0.9 + 0.34 * len(evaluation.policies)), layout="constrained")
    for axes, metric in zip(figure.subplots(1, 2, sharey=True), HEADLINES, strict=True):
        _bars(axes, evaluation, metric)
    return figure


def _bars(axes: Axes, evaluation: EvaluationSummary, metric: str) -> None:
    policies = evaluation.policies
    colours = _colours(evaluation)
    for at, policy in enumerate(policies):
        found = _metric(evaluation.of(policy, OVERALL), metric)
        if found is None:
            continue
        mean, low, high = found
        axes.barh(at, mean, color=colours[policy], height=0.7)
        axes.errorbar(
            mean, at, xerr=[[mean - low], [high - mean]], color="#333333", capsize=2, linewidth=1
        )
        axes.text(min(high + 0.02, 1.03), at, f"{mean:.2f}", va="center", fontsize=8)
    axes.set_yticks(range(len(policies)), policies)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.set_xlim(0, 1.15)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.set_title(f"{metric}, all cells")


def recovery(evaluation: EvaluationSummary) -> Figure:
    """Return a figure of the share recovered within k replies, with a line for each policy."""
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    for policy, colour in _colours(evaluation).items():
        summary = evaluation.of(policy, OVERALL)
        points = [(k, _metric(summary, f"rr@{k}")) for k in RECOVERY_REPLIES]
        known = [(k, found[0]) for k, found in points if found]
        if known:
            thick = 2.4 if policy == evaluation.policy else 1.2
            xs, ys = zip(*known, strict=True)
            axes.plot(xs, ys, "o-", color=colour, label=policy, linewidth=thick, markersize=4)
    axes.set_xticks(RECOVERY_REPLIES)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("replies k")
    axes.set_ylabel("RR@k")
    if axes.lines:  # without one episode there is nothing to explain
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def gradient(evaluation: EvaluationSummary) -> Figure:
    """Return a figure of RR@5 by difficulty with its targets, and faithful recovery by cell."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 2))
    for at, check in enumerate(evaluation.gradient):
        left.bar(at, check.high - check.low, bottom=check.low, color=_TARGET_COLOUR, alpha=0.5)
        if check.found:
            mean = check.found.mean
            span = [[mean - check.found.low], [check.found.high - mean]]
            left.errorbar(at, mean, yerr=span, fmt="o", color=_POLICY_COLOUR, capsize=4)
        left.text(at, 1.04, check.finding or "not measured", ha="center", fontsize=7)
    left.set_xticks(range(len(evaluation.gradient)), [c.difficulty for c in evaluation.gradient])
    left.set_ylim(0, 1.1)
    left.set_title("RR@5 and its targets")
    _cell_bars(right, evaluation)
    return figure


def _cell_bars(axes: Axes, evaluation: EvaluationSummary) -> None:
    cells = [cell for cell in evaluation.cell_names if cell != OVERALL]
    for offset, metric, colour in ((-0.2, "rr@5", "#8aa9c2"), (0.2, "faithful", _POLICY_COLOUR)):
        means = [_metric(evaluation.of(evaluation.policy, cell), metric) for cell in cells]
        heights = [found[0] if found else 0.0 for found in means]
        places = [at + offset for at in range(len(cells))]
        axes.bar(places, heights, width=0.38, color=colour, label=metric)
    axes.set_xticks(range(len(cells)), cells, rotation=40, ha="right")
    axes.set_ylim(0, 1.2)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.set_title(f"{evaluation.policy}, by cell")
    axes.legend(frameon=False, ncols=2, fontsize=8, loc="upper right")


def _colours(evaluation: EvaluationSummary) -> dict[str, str]:
    own, *others = evaluation.policies
    return {own: _POLICY_COLOUR} | {
        policy: _BASELINE_COLOURS[at % len(_BASELINE_COLOURS)] for at, policy in enumerate(others)
    }


def _metric(summary: CellSummary | None, metric: str) -> tuple[float, float, float] | None:
    found = summary.metrics.get(metric) if summary else None
    return (found.mean, found.low, found.high) if found else None
