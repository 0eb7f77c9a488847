"""From the parts of gradients to a verdict on a change of settings.

nothing     the norm of g' - g is under 1e-6 of g in every batch          NO EFFECT
other size  r is under 1% of g' in every update, and the scale is not 1,
            but the same in every batch                                   SCALE ONLY
little      both are under 1%                                             WEAK
direction   r is over 1% of g' somewhere, or the scale is negative, or
            differs by 1% between batches, unlike a learning rate             ACTS

For SCALE ONLY, each update is judged at the weights of the old settings: left alone, the new ones
come to other weights after the first update. A change of the size of updates is judged by its
effect on those weights: it acts if their change differs by 1% of the old change.

Where the computation itself is noisy, as on a GPU, three times its noise takes the place of 1e-6.
"""

from collections.abc import Collection, Sequence

from assay_trainer.ablation.decomposition.findings import (
    BatchParts,
    RewardUnits,
    SamplerFinding,
    SwitchVerdict,
)

LEAST_DIFFERENCE = 1e-6
LEAST_DIRECTION = 0.01
LEAST_R_SQUARED = 0.999
_TIMES_NOISE = 3.0
#: These change the size of an update on purpose, so the weights' change is judged too.
STEP_SIZE = frozenset(
    f"grpo.{name}" for name in ("learning_rate", "warmup_steps", "max_grad_norm", "optimiser")
)


def gradient_verdict(batches: Sequence[BatchParts], changed: Collection[str]) -> SwitchVerdict:
    """Return the verdict of the stored batches on the changed settings."""
    batches = [one for one in batches if not one.is_empty]
    if not batches:
        return SwitchVerdict.UNKNOWN
    if all(one.difference <= _floor(one) for one in batches):
        moves = any(one.change_difference > _floor(one) for one in batches)
        if moves and STEP_SIZE & set(changed):
            return SwitchVerdict.ACTS
        return SwitchVerdict.NO_EFFECT
    if any(min(one.scale, _at_equal_weights(one)[1]) < 0 for one in batches):
        return SwitchVerdict.ACTS
    whole = [(one.direction, one.scale) for one in batches]
    if STEP_SIZE & set(changed):
        if max(one.change_difference for one in batches) >= LEAST_DIRECTION:
            return SwitchVerdict.ACTS
        return _by_parts(whole) or SwitchVerdict.WEAK
    updates = [_at_equal_weights(one) for one in batches]
    return _by_parts(updates) or _by_parts(whole) or SwitchVerdict.WEAK


def _by_parts(parts: Sequence[tuple[float, float]]) -> SwitchVerdict | None:
    """Return the verdict on directions and scales, one of each by batch; None if they are small."""
    scales = [scale for _, scale in parts]
    if max(direction for direction, _ in parts) >= LEAST_DIRECTION:
        return SwitchVerdict.ACTS
    if max(scales) - min(scales) >= LEAST_DIRECTION * max(scales):
        return SwitchVerdict.ACTS
    if max(abs(scale - 1) for scale in scales) >= LEAST_DIRECTION:
        return SwitchVerdict.SCALE_ONLY
    return None


def _at_equal_weights(one: BatchParts) -> tuple[float, float]:
    """Return the direction and the scale of a batch's updates, each at equal weights."""
    if one.update_direction is None or one.update_scale is None:
        return one.direction, one.scale
    return one.update_direction, one.update_scale


def _floor(one: BatchParts) -> float:
    return max(LEAST_DIFFERENCE, _TIMES_NOISE * one.noise)


def arm_verdict(
    gradient: SwitchVerdict, sampler: SamplerFinding | None, activity: str | None = None
) -> tuple[SwitchVerdict, str]:
    """Return the verdict on an arm with its reason; a change of the samples is one of the arm.

    With `activity`, a step in which a changed setting was at work, it is not NO EFFECT.
    """
    verdict, reason = _of_both(gradient, sampler)
    if verdict is SwitchVerdict.NO_EFFECT and activity is not None:
        return SwitchVerdict.UNKNOWN, f"{reason}; but {activity}"
    return verdict, reason


def _of_both(gradient: SwitchVerdict, sampler: SamplerFinding | None) -> tuple[SwitchVerdict, str]:
    found = _of_gradient(gradient)
    if sampler is None or sampler.verdict is SwitchVerdict.NO_EFFECT:
        more = f"; {sampler.reason}" if sampler is not None else ""
        return gradient, found + more
    if gradient is SwitchVerdict.ACTS:
        return gradient, f"{found}; {sampler.reason}"
    return sampler.verdict, f"{sampler.reason}; {found}"


def _of_gradient(verdict: SwitchVerdict) -> str:
    return {
        SwitchVerdict.ACTS: "the updates of the stored batches change",
        SwitchVerdict.WEAK: "the gradients of the stored batches change by less than 1%",
        SwitchVerdict.SCALE_ONLY: "the gradients change in size alone: Adam evens that out, or a "
        "learning rate gives it",
        SwitchVerdict.NO_EFFECT: "the gradients of the stored batches are the same",
        SwitchVerdict.UNKNOWN: "no stored batch has a gradient to compare",
    }.get(verdict, "")


def reward_finding(old: Sequence[float], new: Sequence[float]) -> RewardUnits:
    """Return the fit of new rewards by the old ones, with the verdict on the change.

    Rewards that are the old ones times a number, plus another one, are OTHER UNITS.
    """
    num = len(old)
    mean_old, mean_new = sum(old) / max(1, num), sum(new) / max(1, num)
    square = sum((x - mean_old) ** 2 for x in old)
    square_new = sum((y - mean_new) ** 2 for y in new)
    both = sum((x - mean_old) * (y - mean_new) for x, y in zip(old, new, strict=True))
    scale = both / square if square else 1.0
    offset = mean_new - scale * mean_old
    r_squared = both**2 / (square * square_new) if square and square_new else 1.0
    largest = max((abs(y - x) for x, y in zip(old, new, strict=True)), default=0.0)
    size = max((abs(x) for x in old), default=0.0)
    if largest <= LEAST_DIFFERENCE * max(size, 1.0):
        verdict = SwitchVerdict.NO_EFFECT
    elif r_squared > LEAST_R_SQUARED and scale > 0:
        verdict = SwitchVerdict.OTHER_UNITS
    else:
        verdict = SwitchVerdict.ACTS
    return RewardUnits(
        verdict=verdict, scale=scale, offset=offset, r_squared=r_squared, num_answers=num
    )
