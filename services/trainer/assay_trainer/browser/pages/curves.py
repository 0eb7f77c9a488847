"""Curves of a run's steps as polylines for SVG."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TypeVar

from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.events import DPOStep, SFTStep, StepEvent
from assay_trainer.meters import METERS, is_active, stages_of

#: Points of a curve; of more steps, each point is the mean of some.
_MOST_POINTS = 300
WIDTH, HEIGHT = 300.0, 100.0
_Step = TypeVar("_Step", StepEvent, SFTStep, DPOStep)
_BYTES_PER_GIB = 2**30


@dataclass(frozen=True)
class Curve:
    """A curve in a box of 300 by 100; `marks` are the places of new curriculum stages."""

    title: str
    points: str
    first: str
    last: str
    most: str
    least: str
    first_step: int
    last_step: int
    marks: tuple[float, ...] = ()


#: Field of `StepEvent`, title, and the fixed range of the axis, if it has one.
GRPO_CURVES: tuple[tuple[str, str, tuple[float, float] | None], ...] = (
    ("reward", "mean reward", (0.0, 1.0)),
    ("pass_rate", "pass rate", (0.0, 1.0)),
    ("entropy", "entropy, nats", None),
    ("length_mean", "tokens of an answer", None),
    ("truncated_share", "answers cut off", (0.0, 1.0)),
    ("staleness_mean", "staleness, versions", None),
    ("mismatch", "engine against trainer, nats", None),
    ("grad_norm", "gradient norm", None),
    ("loss", "loss", None),
    ("groups_per_s", "groups a second", None),
    ("tokens_per_s", "tokens a second of the update", None),
    ("step_s", "seconds of a step", None),
    ("memory_bytes", "GPU memory, GiB", None),
)
_SFT: tuple[tuple[str, str], ...] = (
    ("loss", "SFT: loss"),
    ("validation_loss", "SFT: validation loss"),
    ("learning_rate", "SFT: learning rate"),
    ("grad_norm", "SFT: gradient norm"),
)
_DPO: tuple[tuple[str, str], ...] = (
    ("loss", "DPO: loss"),
    ("margin", "DPO: reward margin"),
    ("accuracy", "DPO: accuracy"),
    ("grad_norm", "DPO: gradient norm"),
)


def curves(seen: RunEvents) -> list[Curve]:
    """Return the curves of GRPO, then of SFT and DPO, as far as there are steps."""
    steps = _sorted(seen.steps)
    marks = [first for _, first, _ in stages_of(steps)[1:]]
    found = [
        _curve(steps, partial(value_of, name), title, axis, marks)
        for name, title, axis in GRPO_CURVES
    ]
    # Numbers that verifiers noted of samples, such as the rates of workflows.
    for name in sorted({name for step in steps for name in step.measures}):
        found.append(_curve(steps, partial(_measure, name), name.replace("_", " "), None, marks))
    found += [_curve(_sorted(seen.sft), partial(value_of, name), title) for name, title in _SFT]
    found += [_curve(_sorted(seen.dpo), partial(value_of, name), title) for name, title in _DPO]
    return [one for one in found if one is not None]


def meters(seen: RunEvents) -> tuple[list[Curve], list[str]]:
    """Return the curves of the meters that moved, and the titles of those at rest."""
    steps = _sorted(seen.steps)
    moving, at_rest = [], []
    for meter in METERS if steps else ():
        curve = _curve(steps, meter.value, meter.title)
        if curve is not None and any(is_active(meter, meter.value(one)) for one in steps):
            moving.append(curve)
        else:
            at_rest.append(meter.title)
    return moving, at_rest


def _sorted(steps: dict[int, _Step]) -> list[_Step]:
    return [steps[number] for number in sorted(steps)]


def value_of(name: str, step: object) -> float | None:
    """Return the number of a step that a curve shows; None if it has none."""
    value = getattr(step, name)
    if name == "mismatch":
        return None if value is None else float(value.mean_abs_nats)
    if value is None or not isfinite(value):
        return None
    return value / _BYTES_PER_GIB if name == "memory_bytes" else float(value)


def _measure(name: str, step: StepEvent) -> float | None:
    value = step.measures.get(name)
    return value if value is not None and isfinite(value) else None


def _curve(
    steps: Sequence[_Step],
    number_of: Callable[[_Step], float | None],
    title: str,
    axis: tuple[float, float] | None = None,
    marks: Sequence[int] = (),
) -> Curve | None:
    """Return a curve; None of steps without values."""
    pairs = [(one.step, value) for one in steps if (value := number_of(one)) is not None]
    if not pairs:
        return None
    points = list(means(pairs))
    values = [value for _, value in points]
    least, most = min(0.0, *values), max(values)
    if axis is not None:
        least, most = min(axis[0], least), max(axis[1], most)
    if most <= least:
        most = least + 1.0
    first, last = points[0][0], points[-1][0]
    span = max(1.0, last - first)

    def x(step: float) -> float:
        return (step - first) / span * WIDTH

    line = " ".join(
        f"{x(step):.1f},{HEIGHT - (value - least) / (most - least) * HEIGHT:.1f}"
        for step, value in points
    )
    if len(points) == 1:
        line += f" {WIDTH:.1f},{line.split(',')[1]}"
    return Curve(
        title=title,
        points=line,
        first=shown(pairs[0][1]),
        last=shown(pairs[-1][1]),
        most=shown(most),
        least=shown(least),
        first_step=pairs[0][0],
        last_step=pairs[-1][0],
        marks=tuple(round(x(mark - 0.5), 1) for mark in marks if mark > first),
    )


def means(pairs: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield at most `_MOST_POINTS` points; of more pairs, means of neighbours."""
    size = max(1, -(-len(pairs) // _MOST_POINTS))
    for first in range(0, len(pairs), size):
        some = pairs[first : first + size]
        yield sum(at for at, _ in some) / len(some), sum(v for _, v in some) / len(some)


def shown(value: float) -> str:
    """Return a number for people: three digits, or an exponent."""
    if value == 0 or 0.001 <= abs(value) < 100_000:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.1e}"
