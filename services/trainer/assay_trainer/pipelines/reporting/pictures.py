"""The pictures of a pipeline's report: metrics over stages, costs, gates."""

import io
from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from assay_trainer.pipelines.reporting.tables import MeasuredPoint, points
from assay_trainer.pipelines.runner import Pipeline
from assay_trainer.pipelines.stage_folder import GateResult

_COLOURS = ("#2563eb", "#f59e0b", "#10b981", "#8b5cf6", "#ef4444", "#6b7280")
_VERDICTS = {"PASS": "#10b981", "INCONCLUSIVE": "#f59e0b", "FAIL": "#ef4444"}
_FAINT = "#d4d7dc"
_WIDTH = 8.0
_MOST_GATES = 30


def all_pictures(pipeline: Pipeline) -> dict[str, bytes]:
    """Return the pictures that there is something to show in, as PNG by title."""
    found: dict[str, bytes] = {}
    measured = points(pipeline)
    if measured:
        found["Share accepted over the stages"] = _funnel(measured)
    gates = [
        (one.name, gate)
        for one in pipeline.stages.values()
        if one.record is not None
        for gate in one.record.gates
        if gate.value is not None and not gate.is_built_in
    ]
    if gates:
        found["Gates"] = _gates(gates[:_MOST_GATES])
    costs = [
        (one.name, one.record.costs.seconds / 60, one.record.costs.money)
        for one in pipeline.stages.values()
        if one.record is not None
    ]
    if costs:
        found["Costs by stage"] = _costs(costs)
    return found


def _funnel(measured: Sequence[MeasuredPoint]) -> bytes:
    """Draw a line for each set over the evaluations, with intervals."""
    stages = list(dict.fromkeys(one.stage for one in measured))
    sets = list(dict.fromkeys(one.set for one in measured))
    figure, ax = _figure(3.4)
    for number, name in enumerate(sets):
        own = [one for one in measured if one.set == name]
        # Sets stand next to each other, so that intervals do not cover each other.
        x = [stages.index(one.stage) + 0.06 * (number - (len(sets) - 1) / 2) for one in own]
        y = [one.value for one in own]
        below = [one.value - (0.0 if one.low is None else one.low) for one in own]
        above = [(1.0 if one.high is None else one.high) - one.value for one in own]
        colour = _COLOURS[number % len(_COLOURS)]
        ax.errorbar(x, y, [below, above], fmt="o-", color=colour, capsize=3, label=name)
    ax.set_xticks(range(len(stages)), stages, rotation=20, ha="right")
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.set_ylabel("accepted@1, 95% interval")
    ax.legend(frameon=False)
    return _png(figure)


def _gates(gates: Sequence[tuple[str, GateResult]]) -> bytes:
    """Draw each gate's number with its interval, in the colour of its verdict.

    Numbers from 0 to 1 have an axis; numbers beyond, such as counts and seconds, another one.
    """
    shares = [one for one in gates if _is_share(one[1])]
    others = [one for one in gates if not _is_share(one[1])]
    parts = [part for part in (shares, others) if part]
    figure, axes = plt.subplots(
        len(parts),
        figsize=(_WIDTH, 0.8 * len(parts) + 0.36 * len(gates)),
        height_ratios=[len(part) for part in parts],
        layout="constrained",
        squeeze=False,
    )
    for ax, part in zip(axes[:, 0], parts, strict=True):
        _draw_gates(ax, part)
        values = [abs(one.value or 0.0) for _, one in part]
        if part is shares:
            ax.set_xlim(0, 1)
        elif max(values) > 20 * max(min(values), 1e-9):
            ax.set_xscale("symlog", linthresh=1.0)
            ax.xaxis.set_major_formatter("{x:g}")
        if all(
            value >= 0 for _, one in part for value in (one.value, one.low) if value is not None
        ):
            ax.set_xlim(left=0)
    return _png(figure)


def _is_share(gate: GateResult) -> bool:
    values = (gate.value, gate.low, gate.high)
    return all(0 <= one <= 1 for one in values if one is not None)


def _draw_gates(ax: Axes, gates: Sequence[tuple[str, GateResult]]) -> None:
    for row, (_, gate) in enumerate(gates):
        assert gate.value is not None
        low = gate.value if gate.low is None else gate.low
        high = gate.value if gate.high is None else gate.high
        colour = _VERDICTS[gate.verdict]
        ax.plot([low, high], [row, row], color=colour, linewidth=2.5, clip_on=False)
        ax.plot([gate.value], [row], "o", color=colour, clip_on=False)
        ax.annotate(
            f"{gate.verdict}: {gate.bound}", (1.02, row), xycoords=("axes fraction", "data"),
            fontsize=8, va="center",
        )  # fmt: skip
    names = [" ".join(part for part in (name, one.set, one.metric) if part) for name, one in gates]
    ax.set_yticks(range(len(gates)), names, fontsize=8)
    ax.set_ylim(len(gates) - 0.5, -0.5)
    ax.grid(axis="x", color=_FAINT, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)


def _costs(costs: Sequence[tuple[str, float, float]]) -> bytes:
    """Draw minutes of each stage, with the money at the end of its bar."""
    figure, ax = _figure(0.9 + 0.3 * len(costs))
    minutes = [one for _, one, _ in costs]
    ax.barh(range(len(costs)), minutes, color=_COLOURS[0])
    for row, (_, minute, money) in enumerate(costs):
        ax.annotate(f" {minute:.1f} min, {money:.2f}", (minute, row), va="center", fontsize=8)
    ax.set_yticks(range(len(costs)), [name for name, _, _ in costs], fontsize=8)
    ax.set_xlim(0, max(minutes) * 1.25 or 1.0)
    ax.invert_yaxis()
    ax.set_xlabel("minutes of all attempts; money of them")
    return _png(figure)


def _figure(height: float) -> tuple[Figure, Axes]:
    figure, ax = plt.subplots(figsize=(_WIDTH, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    plt.close(figure)
    return buffer.getvalue()
