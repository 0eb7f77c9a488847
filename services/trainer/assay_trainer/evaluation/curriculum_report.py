"""The curriculum in a run's report: its stages, what was measured, and a picture of both."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pydantic import BaseModel

from assay_trainer.events import CurriculumAdvanced, CurriculumMeasured, StepEvent

_BANDS = ("#eef2f7", "#dbe5f1")
_COLOURS = ("#2563eb", "#f59e0b", "#059669", "#b91c1c", "#7c3aed", "#0e7490", "#a16207", "#be185d")
#: Steps between the marks of two stages that were measured after the same step.
_ASIDE = 0.15
_FAINT = "#9ca3af"


def curriculum_facts(
    steps: Sequence[StepEvent], seen: Sequence[BaseModel]
) -> dict[str, Any] | None:
    """Return the stages in order and the measured pass rates; None without a curriculum.

    A stage that ended before its first step has neither steps nor a pass rate.
    """
    ends = {one.ended: one for one in seen if isinstance(one, CurriculumAdvanced)}
    if not ends and not any(step.curriculum_stage for step in steps):
        return None
    #: Each with the step that it ended after; the sort keeps the order of equal ones.
    placed: list[tuple[int, dict[str, Any]]] = []
    for name, own in groupby(steps, key=lambda step: step.curriculum_stage):
        of_stage = list(own)
        placed.append((of_stage[-1].step, _stage(name, of_stage, ends.pop(str(name), None))))
    placed += [(end.step, _stage(name, [], end)) for name, end in ends.items()]
    stages = [stage for _, stage in sorted(placed, key=lambda one: one[0])]
    return {"stages": stages, "measured": [one.model_dump() for one in _measured(seen)]}


def _stage(
    name: str | None, steps: Sequence[StepEvent], end: CurriculumAdvanced | None
) -> dict[str, Any]:
    return {
        "name": name,
        "first_step": steps[0].step if steps else None,
        "last_step": steps[-1].step if steps else None,
        "num_groups": sum(step.num_groups for step in steps),
        "num_without_signal": sum(step.num_without_signal for step in steps),
        "pass_rate": _mean([step.pass_rate for step in steps if step.pass_rate is not None]),
        "end": "the last step" if end is None else end.reason,
    }


def draw_curriculum(steps: Sequence[StepEvent], seen: Sequence[BaseModel], path: Path) -> None:
    """Draw the stages as bands, the pass rate of training, and the held-out pass rates."""
    figure, ax = plt.subplots(figsize=(8, 4.2))
    _bands(ax, steps)
    trained = [(s.step, s.pass_rate) for s in steps if s.pass_rate is not None]
    ax.plot([p[0] for p in trained], [p[1] for p in trained], color=_FAINT, label="training")
    measured = _measured(seen)
    names = list(dict.fromkeys(one.stage for one in measured))
    for at, name in enumerate(names):
        own = [one for one in measured if one.stage == name]
        rates = [one.pass_rate for one in own]
        errors = [[one.value - one.low for one in rates], [one.high - one.value for one in rates]]
        colour = _COLOURS[at % len(_COLOURS)]
        aside = _ASIDE * (at - (len(names) - 1) / 2)  # equal values of two stages stay visible
        places, values = [one.step + aside for one in own], [one.value for one in rates]
        ax.errorbar(
            places,
            values,
            yerr=errors,
            fmt="o-",
            color=colour,
            capsize=3,
            label=f"held out: {name}",
        )
    ax.set_ylim(0, 1.05)
    ax.set_xlabel("GRPO step")
    ax.set_ylabel("pass rate")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title("Stages of the curriculum; lines are 95% intervals over tasks", pad=18)
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _bands(ax: Axes, steps: Sequence[StepEvent]) -> None:
    for at, (name, own) in enumerate(groupby(steps, key=lambda step: step.curriculum_stage)):
        of_stage = list(own)
        low, high = of_stage[0].step - 0.5, of_stage[-1].step + 0.5
        ax.axvspan(low, high, color=_BANDS[at % 2], zorder=0, linewidth=0)
        ax.text((low + high) / 2, 1.06, str(name or ""), ha="center", va="bottom", fontsize=8)


def _measured(seen: Sequence[BaseModel]) -> list[CurriculumMeasured]:
    """Return each measurement once, in order; one of a repeated step replaces the earlier one."""
    found = [one for one in seen if isinstance(one, CurriculumMeasured)]
    newest = {(one.step, one.stage): one for one in found}
    return sorted(newest.values(), key=lambda one: one.step)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
