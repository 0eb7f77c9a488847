"""Plots of points with intervals, for the figures of calibrations and benches."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from assay_judge.calibration_record import Estimate

#: Estimates by series (for example a judge), then by name of the measure or group.
Rows = Mapping[str, Mapping[str, Estimate | None]]
COLOURS = ("#2563eb", "#b45309", "#0f766e", "#be185d", "#6d28d9", "#4b5563")
INK = "#111827"
WIDTH_IN = 8.0
#: Height of one series' mark in a row, of the space between rows, and of title, axis and legend.
_MARK_IN, _GAP_IN, _FRAME_IN = 0.24, 0.14, 1.35
#: Longer names are cut.
_MAX_NAME = 32


def draw_shares(rows: Rows, label: str, title: str, path: Path) -> None:
    """Draw shares, from 0 to 100%, into a file."""
    figure, ax = draw_marks(rows)
    ax.set_xlim(-0.02, 1.02)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel(label)
    ax.set_title(f"{title} (95% intervals)", loc="left")
    save(figure, path)


def draw_marks(rows: Rows) -> tuple[Figure, Axes]:
    """Return a figure and its axes, with a row for each name and a colour for each series.

    A name without an estimate in any series has no row.
    """
    names = list(
        dict.fromkeys(
            name for marks in rows.values() for name, one in marks.items() if one is not None
        )
    )
    row_in = _MARK_IN * len(rows) + _GAP_IN
    figure, ax = plt.subplots(figsize=(WIDTH_IN, row_in * max(len(names), 1) + _FRAME_IN))
    step = _MARK_IN / row_in
    for index, (judge, marks) in enumerate(rows.items()):
        shift = (index - (len(rows) - 1) / 2) * step
        _mark(ax, [marks.get(name) for name in names], shift, short(judge), COLOURS[index % 6])
    ax.set_yticks(range(len(names)), [short(name) for name in names])
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    for edge in range(1, len(names)):
        ax.axhline(edge - 0.5, color=INK, linewidth=0.4, alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", alpha=0.25)
    ax.set_axisbelow(True)
    if len(rows) > 1:
        figure.legend(frameon=False, loc="outside lower center", ncols=min(len(rows), 3))
    return figure, ax


def _mark(
    ax: Axes, estimates: Sequence[Estimate | None], shift: float, label: str, colour: str
) -> None:
    known = [(i + shift, one) for i, one in enumerate(estimates) if one]
    values = [one.value for _, one in known]
    errors = [
        [max(0.0, one.value - one.low) for _, one in known],
        [max(0.0, one.high - one.value) for _, one in known],
    ]
    places = [y for y, _ in known]
    ax.errorbar(
        values, places, xerr=errors, fmt="o", color=colour, ecolor=colour, capsize=3, label=label
    )
    for y, one in known:
        ax.annotate(
            f"n={one.n}",
            (1.0, y),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=colour,
        )


def short(name: str) -> str:
    """Return a name cut to fit; `$` is escaped, or matplotlib would read a formula."""
    cut = name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"
    return cut.replace("$", r"\$")


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file and close it."""
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=120)
    plt.close(figure)
