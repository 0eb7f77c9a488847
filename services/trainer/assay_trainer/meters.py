"""Activity meters: the numbers of a GRPO step that tell which settings act.

A setting that never moves its meter from the idle value changes nothing in this run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from assay_trainer.events import StepEvent

#: A meter that is as near to its idle value as this stands still.
_SAME = 1e-9


@dataclass(frozen=True)
class ActivityMeter:
    """A field of `StepEvent`, with its titles and its value where nothing acts."""

    field: str
    title: str
    #: The end of the name in Prometheus, after `assay_trainer_`.
    series: str
    text: str
    unit: Literal["share", "nats", "number"]
    idle: float = 0.0

    def value(self, step: StepEvent) -> float | None:
        """Return the step's value; None if the step has none."""
        value = getattr(step, self.field)
        return None if value is None else float(value)

    def shown(self, value: float | None) -> str:
        """Return a value as text."""
        if value is None:
            return "-"
        if self.unit == "share":
            return f"{value:.1%}"
        return f"{value:.2g}" if 0 < abs(value) < 0.1 else f"{value:.2f}".removesuffix(".00")


@dataclass(frozen=True)
class MeterSummary:
    """A meter over the steps of a run; the values are null if no step has one."""

    mean: float | None
    least: float | None
    most: float | None
    last: float | None
    #: Steps with a value, and those of them in which it is not the idle value.
    num_steps: int
    num_active: int


METERS = (
    ActivityMeter(
        "reward_variance",
        "reward variance within groups",
        "reward_variance",
        "Mean over scored groups of the variance of their rewards, last step.",
        "number",
    ),
    ActivityMeter(
        "num_replaced",
        "groups replaced",
        "replaced_groups",
        "Groups without signal whose places other groups took, last step.",
        "number",
    ),
    ActivityMeter(
        "num_overlong",
        "overlong answers",
        "overlong_samples",
        "Answers that grpo.overlong filtered or punished, last step.",
        "number",
    ),
    ActivityMeter(
        "clipped_low",
        "clipped low",
        "clipped_low_share",
        "Share of tokens whose gradient the lower bound of the ratio takes away, last step.",
        "share",
    ),
    ActivityMeter(
        "clipped_high",
        "clipped high",
        "clipped_high_share",
        "Share of tokens whose gradient the upper bound of the ratio takes away, last step.",
        "share",
    ),
    ActivityMeter(
        "kl", "KL to the reference", "kl_nats", "Mean KL to the reference, last step.", "nats"
    ),
    ActivityMeter(
        "kl_gradient_share",
        "KL's share of the gradient",
        "kl_gradient_share",
        "Share of the gradient that comes from the KL term, last step.",
        "share",
    ),
    ActivityMeter(
        "masked_share",
        "tokens masked",
        "masked_share",
        "Share of tokens that the correction leaves out of the gradient, last step.",
        "share",
    ),
    ActivityMeter(
        "truncated_weight_share",
        "importance weights truncated",
        "truncated_weight_share",
        "Share of tokens whose importance weight is cut to its bound, last step.",
        "share",
    ),
    ActivityMeter(
        "importance_weight_mean",
        "mean importance weight",
        "importance_weight_mean",
        "Mean importance weight of the tokens, last step.",
        "number",
        idle=1.0,
    ),
    ActivityMeter(
        "token_weight_spread",
        "spread of token weights",
        "token_weight_spread",
        "Coefficient of variation of the tokens' weights, last step.",
        "number",
    ),
)


def is_active(meter: ActivityMeter, value: float | None) -> bool:
    """Return True if the value tells that a setting acts."""
    return value is not None and abs(value - meter.idle) > _SAME


def summary(meter: ActivityMeter, steps: Sequence[StepEvent]) -> MeterSummary:
    """Return what a meter showed over the steps."""
    values = [value for step in steps if (value := meter.value(step)) is not None]
    return MeterSummary(
        mean=fmean(values) if values else None,
        least=min(values, default=None),
        most=max(values, default=None),
        last=values[-1] if values else None,
        num_steps=len(values),
        num_active=sum(is_active(meter, value) for value in values),
    )


def stages_of(steps: Sequence[StepEvent]) -> list[tuple[str, int, int]]:
    """Return the stages of the curriculum in their order, each with its first and last step."""
    found: list[tuple[str, int, int]] = []
    for step in steps:
        name = step.curriculum_stage
        if name is None:
            continue
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1], step.step)
        else:
            found.append((name, step.step, step.step))
    return found
