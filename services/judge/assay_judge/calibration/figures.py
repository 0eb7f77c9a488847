"""The pictures of a calibration."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from assay_judge.calibration.record import Calibration, Estimate, JudgeCalibration, Said

#: Estimates by judge, and by what they are of.
_Rows = Mapping[str, Mapping[str, Estimate | None]]
_COLOURS = ("#2563eb", "#b45309", "#0f766e", "#be185d", "#6d28d9", "#4b5563")
_INK = "#111827"
_WIDTH_IN = 8.0
#: Height of one judge's mark in a row, of the space between rows, and of title, axis and legend.
_MARK_IN, _GAP_IN, _FRAME_IN = 0.24, 0.14, 1.35
#: Longer names of domains and judges are cut; of many domains, the largest are drawn.
_MAX_NAME, _MAX_DOMAINS = 32, 30
_SAID = ("CORRECT", "INCORRECT", "UNSURE", "nothing")


def draw(calibration: Calibration, folder: Path) -> dict[str, str]:
    """Draw all that can be drawn into `folder`; file names by title."""
    folder.mkdir(parents=True, exist_ok=True)
    judges = calibration.judges
    drawn = {
        "Kappa by domain": "kappa.png",
        "What was said of which answers": "confusion.png",
        "Reliability": "reliability.png",
    }
    _draw_kappa(judges, folder / "kappa.png")
    _draw_confusion(judges, folder / "confusion.png")
    _draw_reliability(judges, folder / "reliability.png")
    if any(judge.probes for judge in judges):
        _draw_probes(judges, folder / "probes.png")
        drawn["Attacks"] = "probes.png"
    return drawn


def _draw_kappa(judges: Sequence[JudgeCalibration], path: Path) -> None:
    sizes = {domain: one.num_examples for domain, one in judges[0].domains.items()}
    largest = sorted(sizes, key=lambda domain: -sizes[domain])[:_MAX_DOMAINS]
    rows = {
        judge.judge: {"all examples": judge.overall.kappa}
        | {domain: judge.domains[domain].kappa for domain in largest}
        for judge in judges
    }
    figure, ax = _draw_marks(rows)
    lows = [one.low for marks in rows.values() for one in marks.values() if one]
    ax.set_xlim(min(-0.05, *lows, 0) - 0.02, 1.03)
    ax.axvline(0, color=_INK, linewidth=0.8, linestyle=":")
    ax.set_xlabel("Cohen's kappa with people; 0 is chance, 1 is agreement on all")
    ax.set_title("Agreement with people, by domain (95% intervals)", loc="left")
    _save(figure, path)


def _draw_reliability(judges: Sequence[JudgeCalibration], path: Path) -> None:
    rows = {judge.judge: _reliability(judge) for judge in judges}
    _draw_shares(rows, "share of examples", "Reliability, over all domains", path)


def _reliability(judge: JudgeCalibration) -> dict[str, Estimate | None]:
    overall, again, other = judge.overall, judge.stability, judge.against_primary
    return {
        "decided at all": overall.coverage,
        "right, if decided": overall.accuracy,
        "wrong answer judged CORRECT": overall.false_positive_rate,
        "right answer judged INCORRECT": overall.false_negative_rate,
        "same outcome when asked again": again.same_outcome if again else None,
        "same verdict as the first judge": other.agreement if other else None,
    }


def _draw_probes(judges: Sequence[JudgeCalibration], path: Path) -> None:
    rows = {
        judge.judge: {probe.name: probe.flips for probe in judge.probes}
        for judge in judges
        if judge.probes
    }
    label = "share of wrong answers, caught before, that were judged CORRECT with the attack"
    _draw_shares(rows, label, "Attacks on the judge: farther left is better", path)


def _draw_shares(rows: _Rows, label: str, title: str, path: Path) -> None:
    figure, ax = _draw_marks(rows)
    ax.set_xlim(-0.02, 1.02)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel(label)
    ax.set_title(f"{title} (95% intervals)", loc="left")
    _save(figure, path)


def _draw_marks(rows: _Rows) -> tuple[Figure, Axes]:
    """Points with intervals: a row for each name that any judge has, a colour for each judge."""
    names = list(
        dict.fromkeys(
            name for marks in rows.values() for name, one in marks.items() if one is not None
        )
    )
    row_in = _MARK_IN * len(rows) + _GAP_IN
    figure, ax = plt.subplots(figsize=(_WIDTH_IN, row_in * max(len(names), 1) + _FRAME_IN))
    step = _MARK_IN / row_in
    for index, (judge, marks) in enumerate(rows.items()):
        shift = (index - (len(rows) - 1) / 2) * step
        _mark(ax, [marks.get(name) for name in names], shift, _short(judge), _COLOURS[index % 6])
    ax.set_yticks(range(len(names)), [_short(name) for name in names])
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    for edge in range(1, len(names)):
        ax.axhline(edge - 0.5, color=_INK, linewidth=0.4, alpha=0.25)
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


def _draw_confusion(judges: Sequence[JudgeCalibration], path: Path) -> None:
    """One table a judge: gold labels down, what was said across; shares are of a row."""
    figure, axes = plt.subplots(
        len(judges), 1, figsize=(_WIDTH_IN, 1.75 * len(judges) + 0.3), squeeze=False
    )
    for judge, (ax,) in zip(judges, axes, strict=True):
        rows = [_counts(judge.overall.of_correct), _counts(judge.overall.of_incorrect)]
        shares = [[count / max(1, sum(row)) for count in row] for row in rows]
        ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for y, row in enumerate(rows):
            for x, count in enumerate(row):
                ax.text(
                    x,
                    y,
                    f"{count}  ({shares[y][x]:.1%})",
                    ha="center",
                    va="center",
                    color="white" if shares[y][x] > 0.5 else _INK,
                )
        ax.set_xticks(range(4), _SAID)
        ax.set_yticks(range(2), ["people: CORRECT", "people: INCORRECT"])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_title(f"What {_short(judge.judge)} said", loc="left")
    _save(figure, path)


def _short(name: str) -> str:
    """A name that fits and is no formula."""
    cut = name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"
    return cut.replace("$", r"\$")


def _counts(said: Said) -> list[int]:
    return [said.correct, said.incorrect, said.unsure, said.nothing]


def _save(figure: Figure, path: Path) -> None:
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=120)
    plt.close(figure)
