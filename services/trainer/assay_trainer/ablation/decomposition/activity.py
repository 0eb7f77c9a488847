"""Meters of a setting: where one of them is not 0, the setting did something in that step."""

from collections.abc import Collection, Mapping, Sequence

from assay_trainer.events import StepEvent

#: By setting: fields of a step's event at 0 in every step of an idle setting.
_METERS = {
    "grpo.clip_low": ("clipped_low",),
    "grpo.clip_high": ("clipped_high",),
    "grpo.correction": ("masked_share", "truncated_weight_share"),
    "grpo.kl_weight": ("kl", "kl_gradient_share"),
    "grpo.overlong": ("num_overlong",),
    "grpo.replace_flat": ("num_replaced", "num_flat_before"),
}


def activity_of(changed: Collection[str], events: Mapping[str, Sequence[StepEvent]]) -> str | None:
    """Return the first step in which a changed setting was at work; None if there is none.

    Args:
        changed: names of settings.
        events: all steps of each run, by the run's name.
    """
    names = sorted({name for key, known in _METERS.items() if key in changed for name in known})
    for run, steps in events.items():
        for step in steps:
            for name in names:
                value = getattr(step, name)
                if value:
                    return f"{name} is {value:.3g} in step {step.step} of {run}"
    return None
