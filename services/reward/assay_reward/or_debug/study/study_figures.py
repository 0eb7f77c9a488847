"""The figures of a study: SFT against RL, ablations, the curriculum, and difficulty."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay_reward.or_debug.evaluate.intervals import CellEstimate
from assay_reward.or_debug.evaluate.summary import TARGETS, over_tasks
from assay_reward.or_debug.study.loading import StudiedResult, StudyResults, trivial_names
from assay_shared.text.markdown import visible

HEADLINES = ("rr@5", "faithful", "diagnosis_iis_recall", "diagnosis_recall")
_COLOURS = ("#9ca3af", "#2563eb", "#f59e0b", "#059669", "#b91c1c", "#7c3aed", "#0e7490", "#a16207")
_DOTS_PER_INCH = 150


def draw_study(study: StudyResults, folder: Path) -> list[str]:
    """Write the figures that the study has policies for; return their names."""
    final, start = study.of(study.file.final), study.start
    figures = {"sft_against_rl.png": _bars(study, [start, final], "The start and the final policy")}
    if arms := study.of_kind("ablation"):
        figures["ablations.png"] = _bars(study, [start, *arms], "Arms of the ablation")
    if staged := study.of_kind("curriculum"):
        compared = [start, *study.of_kind("other"), *staged]
        figures["curriculum.png"] = _by_difficulty(compared, "faithful", None)
    figures["difficulty.png"] = _by_difficulty(list(study.results), "rr@5", TARGETS)
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=_DOTS_PER_INCH)
    return list(figures)


def _bars(study: StudyResults, results: Sequence[StudiedResult], title: str) -> Figure:
    """Return bars of the headlines for each policy; a line shows the best trivial policy."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(results)
    for at, result in enumerate(results):
        shift = (at - (len(results) - 1) / 2) * width
        found = [over_tasks(result.records, metric) for metric in HEADLINES]
        _draw_bars(axes, found, shift, width, result.name, _COLOURS[at % len(_COLOURS)])
    for at, metric in enumerate(HEADLINES):
        best = best_trivial(study, metric)
        if best is not None:
            axes.hlines(best[1], at - 0.45, at + 0.45, colors="#111827", linestyles="dashed")
    axes.plot([], [], "--", color="#111827", label="best trivial policy")
    axes.set_xticks(range(len(HEADLINES)), HEADLINES)
    axes.set_ylim(0, 1.05)
    axes.set_title(f"{title}; lines are 95 % intervals")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def _by_difficulty(
    results: Sequence[StudiedResult], metric: str, targets: dict[str, tuple[float, float]] | None
) -> Figure:
    """Return bars by difficulty for each policy, with the targets of the difficulties."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    axes = figure.subplots()
    levels = [one for one in TARGETS if any(over_tasks(r.records, metric, one) for r in results)]
    width = 0.8 / len(results)
    for at, result in enumerate(results):
        shift = (at - (len(results) - 1) / 2) * width
        found = [over_tasks(result.records, metric, level) for level in levels]
        _draw_bars(axes, found, shift, width, result.name, _COLOURS[at % len(_COLOURS)])
    for at, level in enumerate(levels if targets else ()):
        low, high = TARGETS[level]
        axes.axhspan(low, high, (at + 0.02) / len(levels), (at + 0.98) / len(levels), alpha=0.15)
    axes.set_xlim(-0.5, len(levels) - 0.5)
    axes.set_xticks(range(len(levels)), levels)
    axes.set_ylim(0, 1.05)
    bands = "; bands are the targets of the start" if targets else ""
    axes.set_title(f"{metric} by difficulty{bands}")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return figure


def _draw_bars(
    axes: Axes,
    found: Sequence[CellEstimate | None],
    shift: float,
    width: float,
    label: str,
    colour: str,
) -> None:
    known = [(at + shift, one) for at, one in enumerate(found) if one is not None]
    means = [one.mean for _, one in known]
    errors = [[one.mean - one.low for _, one in known], [one.high - one.mean for _, one in known]]
    places = [place for place, _ in known]
    # matplotlib reads text between dollar signs as a formula.
    plain = visible(label).replace("$", r"\$")
    axes.bar(places, means, width * 0.92, color=colour, label=plain)
    axes.errorbar(places, means, yerr=errors, fmt="none", ecolor="#333333", elinewidth=1)


def best_trivial(study: StudyResults, metric: str, cell: str = "all") -> tuple[str, float] | None:
    """Return the name and mean of the best trivial policy; None if none has the metric."""
    means = []
    for name in trivial_names(study.baselines):
        found = study.baselines.of(name, cell)
        if found is not None and metric in found.metrics:
            means.append((found.metrics[metric].mean, name))
    return (max(means)[1], max(means)[0]) if means else None
