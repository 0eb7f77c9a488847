"""The figures of a calibration report."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

from assay_judge.calibration.marks import INK, WIDTH_IN, draw_marks, draw_shares, save, short
from assay_judge.calibration_record import Calibration, Estimate, JudgeCalibration, Said

#: With more domains, only the largest are drawn.
_MAX_DOMAINS = 30
_SAID = ("CORRECT", "INCORRECT", "UNSURE", "nothing")


def draw(calibration: Calibration, folder: Path) -> dict[str, str]:
    """Draw the figures with data into `folder`; return their file names by title."""
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
    figure, ax = draw_marks(rows)
    lows = [one.low for marks in rows.values() for one in marks.values() if one]
    ax.set_xlim(min(-0.05, *lows, 0) - 0.02, 1.03)
    ax.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    ax.set_xlabel("Cohen's kappa with people; 0 is chance, 1 is agreement on all")
    ax.set_title("Agreement with people, by domain (95% intervals)", loc="left")
    save(figure, path)


def _draw_reliability(judges: Sequence[JudgeCalibration], path: Path) -> None:
    rows = {judge.judge: _reliability(judge) for judge in judges}
    draw_shares(rows, "share of examples", "Reliability, over all domains", path)


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
    draw_shares(rows, label, "Attacks on the judge: farther left is better", path)


def _draw_confusion(judges: Sequence[JudgeCalibration], path: Path) -> None:
    """Draw a table for each judge: gold labels down, the judge's labels across, shares by row."""
    figure, axes = plt.subplots(
        len(judges), 1, figsize=(WIDTH_IN, 1.75 * len(judges) + 0.3), squeeze=False
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
                    color="white" if shares[y][x] > 0.5 else INK,
                )
        ax.set_xticks(range(4), _SAID)
        ax.set_yticks(range(2), ["people: CORRECT", "people: INCORRECT"])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_title(f"What {short(judge.judge)} said", loc="left")
    save(figure, path)


def _counts(said: Said) -> list[int]:
    return [said.correct, said.incorrect, said.unsure, said.nothing]
