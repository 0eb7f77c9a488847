"""The pictures of an ablation, as PNG: values, changes, gradients and curves."""

import io
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay_trainer.ablation.decomposition.verdicts import LEAST_DIFFERENCE, LEAST_DIRECTION
from assay_trainer.ablation.judging.findings import (
    AblationReport,
    ArmCurvePoint,
    ChangeRow,
    JudgedVerdict,
    TableRow,
)

matplotlib.use("Agg")
_DPI = 130
_MOST_ROWS = 30
_GREY = "#6b7280"
_COLOURS = {
    JudgedVerdict.PASS: "#15803d",
    JudgedVerdict.FAIL: "#b91c1c",
    JudgedVerdict.INCONCLUSIVE: _GREY,
}
_KINDS = {"trivial": "#9ca3af", "start": "#b45309", "arm": "#1d4ed8"}
_ARMS = ("#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#0e7490", "#be123c", "#4d7c0f", "#57534e")
_MOST_CURVES = 4


def values(rows: Sequence[TableRow], metric: str, set_name: str) -> bytes | None:
    """Return dots with intervals of every policy; small dots are seeds."""
    shown = [one for one in rows if one.metric == metric and one.set == set_name][:_MOST_ROWS]
    if not shown:
        return None
    figure = Figure(figsize=(8.4, 1.2 + 0.36 * len(shown)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(shown):
        colour = _KINDS.get(row.kind, _GREY)
        if row.value.low is not None and row.value.high is not None:
            span = [row.value.low, row.value.high]
            axes.plot(span, [place, place], color=colour, linewidth=2)
        axes.plot(row.seeds, [place + 0.22] * len(row.seeds), ".", color=colour, alpha=0.6, ms=5)
        axes.plot(row.value.value, place, "o", color=colour, ms=7)
    axes.set_yticks(range(len(shown)), [row.policy.replace("_", " ")[:40] for row in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel(f"{metric} on {set_name}; small dots are seeds", fontsize=9)
    _clean(axes)
    return _png(figure)


def changes(rows: Sequence[ChangeRow], floors: dict[tuple[str, str], float]) -> bytes | None:
    """Return the change of each arm by metric, over a band of the differences of equal arms."""
    metrics = list(dict.fromkeys((row.set, row.metric) for row in rows))[:_MOST_CURVES]
    if not metrics:
        return None
    most = max(sum((row.set, row.metric) == key for row in rows) for key in metrics)
    size = (max(6.4, 3.6 * len(metrics)), 1.7 + 0.4 * most)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axes, key in zip(panels, metrics, strict=True):
        own = [row for row in rows if (row.set, row.metric) == key][:_MOST_ROWS]
        _change_panel(axes, own, floors.get(key, 0.0))
    return _png(figure)


def _change_panel(axes: Axes, rows: Sequence[ChangeRow], floor: float) -> None:
    axes.axvspan(-floor, floor, color="#e5e7eb", zorder=0)
    axes.axvline(0, color="#111827", linewidth=0.8)
    for place, row in enumerate(rows):
        colour = _COLOURS[row.verdict]
        if row.change.low is not None and row.change.high is not None:
            axes.plot([row.change.low, row.change.high], [place, place], color=colour, linewidth=2)
        inside = "white" if row.verdict is JudgedVerdict.INCONCLUSIVE else colour
        axes.plot(row.change.value, place, "o", color=colour, mfc=inside, ms=7, mew=1.6)
    axes.set_yticks(range(len(rows)), [f"{row.arm} - {row.against}" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_title(f"{rows[0].metric}\n{rows[0].set}", fontsize=9)
    axes.set_xlabel("difference; grey: seeds of equal arms", fontsize=8)
    _clean(axes)


def gradients(report: AblationReport) -> bytes | None:
    """Return the part of each batch's gradient that an arm or a planted change moves."""
    named = [
        (arm.name, [one.direction for one in arm.decomposition.batches])
        for arm in report.arms
        if arm.decomposition is not None and arm.decomposition.batches
    ]
    planted = [
        (f"planted: {one.name.replace('_', ' ')}", [one.parts.direction])
        for one in report.controls
        if one.parts is not None
    ]
    shown = [*named, *planted]
    if not shown:
        return None
    figure = Figure(figsize=(8.4, 1.3 + 0.36 * len(shown)), layout="constrained")
    axes = figure.subplots()
    for place, (name, shares) in enumerate(shown):
        colour = _GREY if name.startswith("planted") else "#1d4ed8"
        axes.plot([max(one, 1e-9) for one in shares], [place] * len(shares), "o", color=colour)
    axes.axvline(LEAST_DIRECTION, color="#b91c1c", linewidth=1, linestyle="--")
    axes.axvline(LEAST_DIFFERENCE, color=_GREY, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlim(5e-10, 3)
    axes.set_yticks(range(len(shown)), [name for name, _ in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel(
        "share of the gradient in another direction, a dot a batch; dashed: 1%, acts", fontsize=9
    )
    _clean(axes)
    return _png(figure)


def curves(points: Sequence[ArmCurvePoint], arms: Sequence[str]) -> bytes | None:
    """Return curves over updates, and over sampled tokens, of each arm; thin lines are seeds."""
    names = list(dict.fromkeys(one.name for one in points))[:_MOST_CURVES]
    if not names:
        return None
    figure = Figure(figsize=(9.6, 2.9 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 2, squeeze=False)
    for row, name in zip(panels, names, strict=True):
        own = [one for one in points if one.name == name]
        _curve(row[0], own, arms, by_tokens=False)
        _curve(row[1], own, arms, by_tokens=True)
        row[0].set_ylabel(name, fontsize=9)
    panels[0][0].legend(fontsize=8, frameon=False)
    return _png(figure)


def _curve(
    axes: Axes, points: Sequence[ArmCurvePoint], arms: Sequence[str], *, by_tokens: bool
) -> None:
    for number, arm in enumerate(arms):
        colour = _ARMS[number % len(_ARMS)]
        own = [one for one in points if one.arm == arm]
        if not own:
            continue
        by_seed: dict[int, list[ArmCurvePoint]] = defaultdict(list)
        by_step: dict[int, list[ArmCurvePoint]] = defaultdict(list)
        for one in sorted(own, key=lambda point: point.step):
            by_seed[one.seed].append(one)
            by_step[one.step].append(one)
        for some in by_seed.values():
            xs = [one.drawn_tokens if by_tokens else one.step for one in some]
            style = "-" if len(some) > 1 else "."
            axes.plot(xs, [one.value for one in some], style, color=colour, alpha=0.25, lw=1)
        means = [
            (fmean(one.drawn_tokens if by_tokens else one.step for one in some), some)
            for some in by_step.values()
        ]
        style = "-" if len(means) > 1 else "o"
        ys = [fmean(one.value for one in some) for _, some in means]
        axes.plot([x for x, _ in means], ys, style, color=colour, lw=2, label=arm)
    axes.set_xlabel("tokens sampled" if by_tokens else "steps", fontsize=9)
    _clean(axes)


def _clean(axes: Axes) -> None:
    axes.grid(axis="x", color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return buffer.getvalue()
