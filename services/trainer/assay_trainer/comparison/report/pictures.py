"""The pictures of a comparison, as PNG."""

import io
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from assay_shared.types import Status
from assay_trainer.comparison.comparing import ComparisonData, EvaluationFacts
from assay_trainer.comparison.flips import SetFlips
from assay_trainer.comparison.results import ComparedRow, RowVerdict

matplotlib.use("Agg")
_COLOURS = {
    RowVerdict.BETTER: "#16a34a",
    RowVerdict.WORSE: "#dc2626",
    RowVerdict.SAME: "#0891b2",
    RowVerdict.INCONCLUSIVE: "#6b7280",
}
_OTHER_COLOUR = "#9ca3af"
_DECIDED = (RowVerdict.BETTER, RowVerdict.WORSE, RowVerdict.SAME)
_OUTCOMES = {
    Status.ACCEPTED: "#16a34a",
    Status.WRONG_ANSWER: "#f59e0b",
    Status.RUNTIME_ERROR: "#f97316",
    Status.TIME_LIMIT: "#a855f7",
    Status.MEMORY_LIMIT: "#7c3aed",
    Status.OUTPUT_LIMIT: "#6366f1",
    Status.SYNTAX_ERROR: "#dc2626",
    Status.COMPILE_ERROR: "#991b1b",
    Status.UNGRADABLE: "#64748b",
}
_MOST_PLACES = 24
_MOST_LABEL = 40
#: Wider intervals end in an arrow.
_MOST_RELATIVE = 1.0
_DPI = 130


def forest(rows: Sequence[ComparedRow], metrics: Sequence[str], confidence: float) -> bytes | None:
    """Return a panel for each metric with each set's change and interval; None without a change."""
    shown = [row for row in rows if row.metric in metrics and row.headline is not None]
    names = [name for name in metrics if any(row.metric == name for row in shown)]
    places = list(dict.fromkeys(row.place for row in shown))[:_MOST_PLACES]
    if not names or not places:
        return None
    figure = Figure(
        figsize=(max(9.5, 1.9 + 2.75 * len(names)), 1.5 + 0.36 * len(places)), layout="constrained"
    )
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        own = [row for row in shown if row.metric == name and row.place in places]
        _panel(axes, own, places)
    strata = {row.place: row.stratum for row in shown}
    labels = [f"· {strata[place]}" if strata[place] else place for place in places]
    panels[0].set_yticks(range(len(places)), [_label(label) for label in labels])
    panels[0].set_ylim(len(places) - 0.5, -0.5)
    figure.suptitle(
        f"Change against the baseline, {100 * confidence:g}% intervals over tasks; "
        "full dot: better (green), worse (red) or the same (blue); hollow: inconclusive",
        fontsize=9.5,
    )
    return _png(figure)


def _panel(axes: Axes, rows: Sequence[ComparedRow], places: Sequence[str]) -> None:
    axes.axvline(0, color="#111827", linewidth=0.8)
    is_relative = rows[0].is_relative
    limit = _MOST_RELATIVE if is_relative else 1.0
    for row in rows:
        assert row.headline is not None
        interval, place = row.headline.interval, places.index(row.place)
        colour = _COLOURS.get(row.verdict, _OTHER_COLOUR)
        low, high = max(interval.low, -limit), min(interval.high, limit)
        axes.plot([low, high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
        if interval.high > limit:
            axes.plot(limit, place, marker=">", color=colour, markersize=6)
        if -limit <= interval.value <= limit:
            # Without colours, a full dot is a verdict and a hollow one is not.
            inside = colour if row.verdict in _DECIDED else "white"
            axes.plot(interval.value, place, "o", color=colour, mfc=inside, ms=7, mew=1.6)
    axes.margins(x=0.08)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    axes.set_xlabel("change, in %" if is_relative else "difference, in points", fontsize=9)
    arrow = {"higher": " (right is better)", "lower": " (left is better)"}.get(rows[0].better, "")
    axes.set_title(f"{rows[0].title}\n{arrow.strip()}", fontsize=9)
    _clean(axes, "x")


def outcome_bars(data: ComparisonData) -> bytes | None:
    """Return bars of the outcomes of each set's samples, a bar for each arm."""
    names = list(
        dict.fromkeys(n for seeds in data.evaluations.values() for one in seeds for n in one.sets)
    )[:_MOST_PLACES]
    bars = [
        (name, arm, counts)
        for name in names
        for arm, seeds in data.evaluations.items()
        if (counts := _outcomes(seeds, name))
    ]
    if not bars:
        return None
    kinds = [kind for kind in _OUTCOMES if any(counts.get(kind) for _, _, counts in bars)]
    figure = Figure(figsize=(8.4, 1.4 + 0.34 * len(bars)), layout="constrained")
    axes = figure.subplots()
    places, position, last = [], 0.0, ""
    for name, _, _ in bars:
        position += 0.5 if last and name != last else 0.0
        places.append(position)
        position, last = position + 1.0, name
    starts = [0.0] * len(bars)
    for kind in kinds:
        shares = [counts.get(kind, 0) / sum(counts.values()) for _, _, counts in bars]
        axes.barh(places, shares, 0.86, starts, color=_OUTCOMES[kind], label=kind.replace("_", " "))
        for place, start, share in zip(places, starts, shares, strict=True):
            if share >= 0.06:
                middle = start + share / 2
                axes.text(middle, place, f"{share:.0%}", ha="center", va="center", fontsize=8)
        starts = [start + share for start, share in zip(starts, shares, strict=True)]
    axes.set_yticks(places, [_label(f"{name}: {arm}") for name, arm, _ in bars])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("share of scored samples", fontsize=9)
    figure.legend(loc="outside upper center", ncols=min(len(kinds), 5), frameon=False, fontsize=8.5)
    _clean(axes, "x")
    return _png(figure)


def _outcomes(seeds: Sequence[EvaluationFacts], name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in seeds:
        if name in one.sets:
            for kind, number in one.sets[name].outcomes.items():
                found[kind] = found.get(kind, 0) + number
    return found


def flip_bars(flips: Sequence[SetFlips]) -> bytes | None:
    """Return bars of the tasks of each set that turned right and wrong; None without one."""
    shown = [one for one in flips if one.turned_right or one.turned_wrong][:_MOST_PLACES]
    if not shown:
        return None
    figure = Figure(figsize=(7.4, 1.2 + 0.42 * len(shown)), layout="constrained")
    axes = figure.subplots()
    right = axes.barh(range(len(shown)), [one.turned_right for one in shown], 0.7, color="#16a34a")
    wrong = axes.barh(range(len(shown)), [-one.turned_wrong for one in shown], 0.7, color="#dc2626")
    axes.bar_label(right, [str(one.turned_right) for one in shown], padding=3, fontsize=9)
    axes.bar_label(wrong, [str(one.turned_wrong) for one in shown], padding=3, fontsize=9)
    axes.axvline(0, color="#111827", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [_label(one.set) for one in shown])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    axes.set_xlabel("tasks that turned wrong (left) and right (right), first answers", fontsize=9)
    _clean(axes, "x")
    return _png(figure)


def _label(text: str) -> str:
    """Return a label that is not read as mathematics, its end cut off if it is long."""
    cut = text if len(text) <= _MOST_LABEL else f"{text[: _MOST_LABEL - 1]}…"
    return cut.replace("$", r"\$")


def _clean(axes: Axes, grid: str) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="both", labelsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x" if grid == "x" else "both", alpha=0.25)
    axes.set_axisbelow(True)


def _png(figure: Figure) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=_DPI)
    return written.getvalue()
