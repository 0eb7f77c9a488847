"""Curves of several runs in one box, over updates, tokens or time."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.browser.pages.curves import GRPO_CURVES, HEIGHT, WIDTH, means, shown, value_of
from assay_trainer.events import StepEvent

_HOUR_S = 3600.0


class CurveAxis(StrEnum):
    """What a curve goes over: updates, trained tokens so far, or hours of steps so far."""

    UPDATES = "updates"
    TOKENS = "tokens"
    TIME = "time"


@dataclass(frozen=True)
class JointLine:
    """A run's line; `place` is the run's place in the list, which gives the colour."""

    place: int
    points: str
    last: str


@dataclass(frozen=True)
class JointChart:
    """Lines of runs in a box of 300 by 100."""

    title: str
    lines: list[JointLine]
    most: str
    least: str
    end: str


def joint_charts(seen: Sequence[RunEvents], axis: CurveAxis) -> list[JointChart]:
    """Return the curves of GRPO with values in a run at least."""
    steps = [[one.steps[number] for number in sorted(one.steps)] for one in seen]
    places = [_places(some, axis) for some in steps]
    found = []
    for name, title, bounds in GRPO_CURVES:
        pairs = [
            [
                (at, value)
                for at, step in zip(where, some, strict=True)
                if (value := value_of(name, step)) is not None
            ]
            for where, some in zip(places, steps, strict=True)
        ]
        if any(pairs):
            found.append(_chart(title, pairs, bounds, axis))
    return found


def _places(steps: Sequence[StepEvent], axis: CurveAxis) -> list[float]:
    """Return where each step ends on the axis."""
    if axis is CurveAxis.UPDATES:
        return [float(one.step) for one in steps]
    found, total = [], 0.0
    for one in steps:
        total += one.num_tokens if axis is CurveAxis.TOKENS else one.step_s / _HOUR_S
        found.append(total)
    return found


def _chart(
    title: str,
    pairs: Sequence[Sequence[tuple[float, float]]],
    bounds: tuple[float, float] | None,
    axis: CurveAxis,
) -> JointChart:
    points = [list(means(some)) for some in pairs]
    values = [value for some in points for _, value in some]
    least, most = min(0.0, *values), max(values)
    if bounds is not None:
        least, most = min(bounds[0], least), max(bounds[1], most)
    if most <= least:
        most = least + 1.0
    end = max(at for some in points for at, _ in some) or 1.0
    lines = []
    for place, some in enumerate(points):
        if some:
            line = " ".join(
                f"{at / end * WIDTH:.1f},{HEIGHT - (value - least) / (most - least) * HEIGHT:.1f}"
                for at, value in some
            )
            if len(some) == 1:
                line += f" {WIDTH:.1f},{line.split(',')[1]}"
            lines.append(JointLine(place, line, shown(some[-1][1])))
    unit = {CurveAxis.UPDATES: "step", CurveAxis.TOKENS: "tokens", CurveAxis.TIME: "hours"}[axis]
    told = f"step {end:.0f}" if axis is CurveAxis.UPDATES else f"{shown(end)} {unit}"
    return JointChart(title, lines, shown(most), shown(least), told)
