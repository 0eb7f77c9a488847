"""The pictures of a report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from assay_shared.statistics.interval import Interval
from assay_shared.types import Status
from assay_trainer.evaluation.evaluator import TaskEvaluation
from assay_trainer.events import GivenRowsStep, StepEvent
from assay_trainer.meters import METERS, stages_of, summary

_BEFORE, _AFTER, _FAINT = "#8a8f98", "#2563eb", "#d4d7dc"
_COLOURS = {"before": _BEFORE, "after": _AFTER}
_SMOOTHED_STEPS = 5
#: Drawn in place of 0 where the axis is logarithmic.
_LEAST_NATS = 1e-9
#: Right first, then from wrong answers to programs that do not even parse.
_OUTCOME_ORDER = [
    Status.ACCEPTED,
    Status.WRONG_ANSWER,
    Status.RUNTIME_ERROR,
    Status.TIME_LIMIT,
    Status.MEMORY_LIMIT,
    Status.OUTPUT_LIMIT,
    Status.UNGRADABLE,
    Status.SYNTAX_ERROR,
    Status.COMPILE_ERROR,
    "failed",
]


def draw_curves(steps: Sequence[StepEvent], path: Path) -> None:
    """Draw reward and pass rate over the steps, as sampled and smoothed."""
    figure, axes = _figure(2, 1, height=5.0)
    for ax, name, title in zip(
        axes, ("reward", "pass_rate"), ("mean reward", "pass rate"), strict=True
    ):
        points = [(s.step, v) for s in steps if (v := getattr(s, name)) is not None]
        x, y = [p[0] for p in points], [p[1] for p in points]
        ax.plot(x, y, color=_FAINT, marker=".", label="each step")
        ax.plot(x, smoothed(y), color=_AFTER, label=f"mean of {_SMOOTHED_STEPS} steps")
        ax.set_ylim(0, 1)
        ax.set_ylabel(title)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].set_xlabel("GRPO step")
    axes[0].legend(frameon=False, loc="lower right")
    axes[0].set_title("Training: all scored samples, on training tasks")
    _save(figure, path)


def draw_meters(steps: Sequence[StepEvent], path: Path) -> bool:
    """Draw each meter that is ever active; return False, and draw nothing, if none is."""
    active = [meter for meter in METERS if summary(meter, steps).num_active]
    if not active:
        return False
    num_rows = (len(active) + 1) // 2
    figure, axes = _figure(num_rows, 2, height=2.0 * num_rows + 0.6)
    starts = [first for _, first, _ in stages_of(steps)][1:]
    for ax, meter in zip(axes, active, strict=False):
        points = [(s.step, v) for s in steps if (v := meter.value(s)) is not None]
        ax.plot([p[0] for p in points], [p[1] for p in points], ".-", color=_AFTER)
        for start in starts:
            ax.axvline(start - 0.5, color=_BEFORE, linestyle=":", linewidth=1)
        ax.set_title(meter.title, fontsize=9)
        if meter.unit == "share":
            ax.yaxis.set_major_formatter(PercentFormatter(1))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for ax in axes[len(active) :]:
        ax.set_axis_off()
    figure.supxlabel(
        "GRPO step; dotted lines are new stages" if starts else "GRPO step", fontsize=9
    )
    _save(figure, path)
    return True


def draw_given_rows(
    steps: Sequence[GivenRowsStep], stage: str, panels: Sequence[Sequence[str]], path: Path
) -> None:
    """Draw fields of the steps of SFT or DPO, a panel for each group of `panels`."""
    figure, axes = _figure(len(panels), 1, height=2.2 * len(panels))
    for ax, names in zip(axes, panels, strict=True):
        for name, colour in zip(names, (_AFTER, "#f59e0b"), strict=False):
            points = [(s.step, v) for s in steps if (v := getattr(s, name)) is not None]
            if not points:
                continue
            label = name.replace("_", " ")
            ax.plot([p[0] for p in points], [p[1] for p in points], ".-", color=colour, label=label)
        ax.set_ylabel(names[0].replace("_", " "))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(ax.lines) > 1:
            ax.legend(frameon=False, loc="upper right")
    axes[-1].set_xlabel(f"{stage} step")
    axes[0].set_title(f"{stage}: each update")
    _save(figure, path)


def draw_mismatch(steps: Sequence[StepEvent], path: Path) -> None:
    """Draw how far inference and trainer differ under the same weights."""
    figure, (ax,) = _figure(1, 1, height=3.0)
    points = [(step.step, step.mismatch) for step in steps if step.mismatch is not None]
    x = [number for number, _ in points]
    for name, colour in (("max_abs_nats", _FAINT), ("mean_abs_nats", _AFTER)):
        y = [max(getattr(one, name), _LEAST_NATS) for _, one in points]
        ax.plot(x, y, color=colour, marker=".", label=name.partition("_")[0])
    ax.set_yscale("log")
    ax.set_ylabel("nats a token")
    ax.set_xlabel("GRPO step")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title("Difference of log-probabilities, inference and trainer, same weights")
    ax.legend(frameon=False, loc="upper right")
    _save(figure, path)


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the mean of each value and up to four values before it."""
    windows = (values[max(0, i - _SMOOTHED_STEPS + 1) : i + 1] for i in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def draw_comparison(evaluations: Sequence[TaskEvaluation], tag: str, path: Path) -> None:
    """Draw pass@1 of each evaluation with intervals, overall and by a tag."""
    series = {e.name: {"all": e.interval(1)} | e.by_tag(tag) for e in evaluations}
    names = list(dict.fromkeys(name for intervals in series.values() for name in intervals))
    figure, (ax,) = _figure(1, 1, height=3.6)
    width = 0.8 / len(series)
    for index, (name, intervals) in enumerate(series.items()):
        shift = (index - (len(series) - 1) / 2) * width
        _bars(ax, [intervals.get(n) for n in names], shift, width, name)
    ax.set_xticks(range(len(names)), names, rotation=0 if len(names) < 7 else 30)
    ax.set_ylim(0, 1.18)  # the legend is above the bars
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    ax.set_ylabel("pass@1")
    ax.set_title(f"Held-out tasks, by {tag}; lines are 95% intervals over tasks")
    ax.legend(frameon=False, loc="upper left", ncols=2)
    _save(figure, path)


def _bars(
    ax: Axes, intervals: Sequence[Interval | None], shift: float, width: float, label: str
) -> None:
    x = [i + shift for i, one in enumerate(intervals) if one]
    known = [one for one in intervals if one]
    values = [one.value for one in known]
    errors = [
        [one.value - one.low for one in known],
        [one.high - one.value for one in known],
    ]
    colour = _COLOURS.get(label, _AFTER)
    ax.bar(x, values, width * 0.92, color=colour, label=label)
    ax.errorbar(x, values, yerr=errors, fmt="none", ecolor="#111827", elinewidth=1, capsize=2)


def draw_outcomes(evaluations: Sequence[TaskEvaluation], path: Path) -> None:
    """Draw the outcomes of the samples of each evaluation."""
    counts = {e.name: e.outcomes() for e in evaluations}
    kinds = [kind for kind in _OUTCOME_ORDER if any(c[kind] for c in counts.values())]
    figure, (ax,) = _figure(1, 1, height=0.5 * len(kinds) + 1.4)
    height = 0.8 / len(counts)
    for index, (name, one) in enumerate(counts.items()):
        shift = (index - (len(counts) - 1) / 2) * height
        shares = [one[kind] / one.total() for kind in kinds]
        bars = ax.barh(
            [i + shift for i in range(len(kinds))],
            shares,
            height * 0.92,
            color=_COLOURS.get(name, _AFTER),
            label=name,
        )
        ax.bar_label(bars, [f"{share:.1%}" for share in shares], padding=3, fontsize=8)
    ax.set_yticks(range(len(kinds)), [str(kind).replace("_", " ") for kind in kinds])
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("share of held-out samples")
    ax.set_title("How answers ended")
    ax.legend(frameon=False, loc="lower right")
    _save(figure, path)


def draw_time(stages_s: Mapping[str, float], steps: Sequence[StepEvent], path: Path) -> None:
    """Draw the durations of the run's stages, and of a GRPO step's parts."""
    figure, axes = _figure(1, 2 if steps else 1, height=3.0)
    names = list(stages_s)
    bars = axes[0].barh(names, list(stages_s.values()), color=_AFTER)
    axes[0].bar_label(bars, fmt="%.0f s", padding=3, fontsize=8)
    axes[0].invert_yaxis()
    axes[0].margins(x=0.2)
    axes[0].set_title("Stages, in seconds")
    if steps:
        x = [step.step for step in steps]
        parts = {
            "waiting for rollouts": [step.rollouts_s for step in steps],
            "update": [step.update_s for step in steps],
            "publishing weights": [step.publish_s for step in steps],
        }
        axes[1].stackplot(
            x, *parts.values(), labels=list(parts), colors=[_FAINT, _AFTER, "#f59e0b"]
        )
        axes[1].set_title("A GRPO step, in seconds")
        axes[1].set_xlabel("GRPO step")
        axes[1].xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[1].set_ylim(0, 1.45 * max(map(sum, zip(*parts.values(), strict=True))))
        axes[1].legend(frameon=False, fontsize=8, loc="upper left")
    _save(figure, path)


def draw_rescored(before: Sequence[float], after: Sequence[float], rubric: str, path: Path) -> None:
    """Draw each answer's reward before and after; larger dots stand for more answers."""
    counts = Counter(zip(before, after, strict=True))
    x, y = [point[0] for point in counts], [point[1] for point in counts]
    low, high = min(*x, *y), max(*x, *y)
    figure, (ax,) = _figure(1, 1, height=6.0)
    ax.plot([low, high], [low, high], color=_BEFORE, linewidth=1, label="unchanged")
    top = max(counts.values())
    areas = [20 + 480 * num / top for num in counts.values()]
    ax.scatter(x, y, s=areas, color=_AFTER, alpha=0.5, linewidths=0, zorder=3)
    ax.set_aspect("equal")
    ax.margins(0.1)
    ax.set_xlabel("reward before")
    ax.set_ylabel("reward after")
    unchanged = sum(num for (old, new), num in counts.items() if abs(old - new) <= 1e-9)
    ax.set_title(f"Scored again by {rubric}: {unchanged} of {len(before)} rewards unchanged")
    ax.legend(frameon=False, loc="upper left")
    _save(figure, path)


def _figure(num_rows: int, num_columns: int, height: float) -> tuple[Figure, list[Axes]]:
    figure, axes = plt.subplots(num_rows, num_columns, figsize=(8, height), squeeze=False)
    flat = [ax for row in axes for ax in row]
    for ax in flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="both", alpha=0.25)
        ax.set_axisbelow(True)
    return figure, flat


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
