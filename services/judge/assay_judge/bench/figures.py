"""The figures of a bench report."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from assay_judge.bench.names import Reason
from assay_judge.bench.record import Arm, Bench, Measures
from assay_judge.bench.sets import STYLES
from assay_judge.calibration.marks import INK, WIDTH_IN, draw_marks, save, short
from assay_judge.calibration_record import Estimate

_SERIES = {Reason.AFTER: "reason after the verdict", Reason.BEFORE: "reason before the verdict"}
#: The parts of a bar, from left to right.
_PARTS = {
    "right_twice": ("right in both orders", "#15803d"),
    "first_twice": ("first place in both orders", "#f59e0b"),
    "second_twice": ("second place in both orders", "#a16207"),
    "tie": ("a tie", "#9ca3af"),
    "wrong_twice": ("wrong in both orders", "#b91c1c"),
    "failed": ("failed: no verdict", "#e5e7eb"),
}
_BAR_IN, _FRAME_IN = 0.32, 1.75


def draw(bench: Bench, folder: Path) -> dict[str, str]:
    """Draw the figures with data into `folder`; return their file names by title."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"What both orders came to": "orders.png"}
    _draw_orders(bench, folder / "orders.png")
    if any(arm.overall.accuracy for arm in bench.arms.values()):
        drawn = {"Accuracy": "accuracy.png"} | drawn | {"Position bias": "position.png"}
        _draw_accuracy(bench, folder / "accuracy.png")
        _draw_position(bench, folder / "position.png")
    if any(arm.styles for arm in bench.arms.values()):
        _draw_styles(bench, folder / "styles.png")
        drawn["Accuracy by style"] = "styles.png"
    return drawn


def _groups(arm: Arm) -> dict[str, Measures]:
    return {"all": arm.overall} | arm.subsets | arm.difficulties


def _rows(
    bench: Bench, of: Callable[[Measures], Estimate | None]
) -> dict[str, dict[str, Estimate | None]]:
    """Return a measure of each group, by series."""
    return {
        _SERIES[reason]: {name: of(one) for name, one in _groups(arm).items()}
        for reason, arm in bench.arms.items()
    }


def _title(bench: Bench, what: str) -> str:
    return f"{what}: {_who(bench)} (95% intervals)"


def _who(bench: Bench) -> str:
    return f"{short(', '.join(bench.chain.values()))} on {bench.set.shown}"


def _draw_accuracy(bench: Bench, path: Path) -> None:
    figure, ax = draw_marks(_rows(bench, attrgetter("accuracy")))
    ax.set_xlim(-0.02, 1.02)
    ax.axvline(0.5, color=INK, linewidth=1, linestyle=":")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("share of verdicts that name the better answer; 50% is chance")
    ax.set_title(_title(bench, "Accuracy"), loc="left")
    save(figure, path)


def _draw_position(bench: Bench, path: Path) -> None:
    figure, ax = draw_marks(_rows(bench, attrgetter("position")))
    ax.set_xlim(-1.04, 1.04)
    ax.axvline(0, color=INK, linewidth=1, linestyle=":")
    ax.set_xlabel("always the second place  ←  0: no bias  →  always the first place")
    ax.set_title(_title(bench, "Position bias"), loc="left")
    save(figure, path)


def _draw_orders(bench: Bench, path: Path) -> None:
    """Draw a bar for each group and a panel for each prompt."""
    num = max(len(_groups(arm)) for arm in bench.arms.values())
    height = len(bench.arms) * (num * _BAR_IN + 0.55) + _FRAME_IN - 0.5
    figure, axes = plt.subplots(
        len(bench.arms), 1, figsize=(WIDTH_IN, height), squeeze=False, sharex=True
    )
    for (reason, arm), ax in zip(bench.arms.items(), axes[:, 0], strict=True):
        _draw_bars(ax, _groups(arm))
        ax.set_title(f"{_who(bench)}, both orders: {_SERIES[reason]}", loc="left", fontsize=11)
    axes[-1, 0].set_xlabel("share of pairs")
    patches = [Patch(color=colour, label=label) for label, colour in _PARTS.values()]
    figure.legend(handles=patches, frameon=False, loc="outside lower center", ncols=3)
    save(figure, path)


def _draw_bars(ax: Axes, groups: Mapping[str, Measures]) -> None:
    left = [0.0] * len(groups)
    places = list(range(len(groups)))
    for name, (_, colour) in _PARTS.items():
        counts = [getattr(one.outcomes, name) for one in groups.values()]
        widths = [
            count / max(1, one.num_pairs)
            for count, one in zip(counts, groups.values(), strict=True)
        ]
        ax.barh(places, widths, left=left, color=colour, height=0.72)
        for y, (x, width, count) in enumerate(zip(left, widths, counts, strict=True)):
            if width > 0.045:
                ink = INK if name in ("failed", "tie", "first_twice") else "white"
                ax.text(x + width / 2, y, str(count), ha="center", va="center", color=ink)
        left = [x + width for x, width in zip(left, widths, strict=True)]
    ax.set_yticks(places, [f"{short(name)}  n={one.num_pairs}" for name, one in groups.items()])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _draw_styles(bench: Bench, path: Path) -> None:
    """Draw RM-Bench's matrix, a panel for each prompt."""
    figure, axes = plt.subplots(1, len(bench.arms), figsize=(WIDTH_IN, 3.9), squeeze=False)
    for (reason, arm), ax in zip(bench.arms.items(), axes[0], strict=True):
        _draw_matrix(ax, arm.styles)
        ax.set_title(_SERIES[reason], loc="left", fontsize=10)
    axes[0, 0].set_ylabel("style of the better answer")
    where = "below the diagonal the better answer has the richer style (easy), above it the plainer"
    title = f"{_title(bench, 'Accuracy by style')}\n{where} (hard)"
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    save(figure, path)


def _draw_matrix(ax: Axes, styles: Sequence[Sequence[Estimate | None]]) -> None:
    values = [[one.value if one else float("nan") for one in row] for row in styles]
    ax.imshow(values, cmap="RdYlGn", vmin=0, vmax=1, aspect="auto", alpha=0.75)
    for y, row in enumerate(styles):
        for x, one in enumerate(row):
            text = f"{one.value:.0%}\n[{one.low:.0%}, {one.high:.0%}]" if one else "none"
            ax.text(x, y, text, ha="center", va="center", color=INK, fontsize=9)
    ax.set_xticks(range(len(STYLES)), STYLES)
    ax.set_yticks(range(len(STYLES)), STYLES)
    ax.set_xlabel("style of the worse answer")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
