"""The time of a step: who waits for whom."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay_trainer.events import StepEvent

#: Steps of which the sentence speaks.
_RECENT = 20


@dataclass(frozen=True)
class StepParts:
    """The seconds of a step by what the trainer did; `rest_s` is everything else."""

    step: int
    total_s: float
    rollouts_s: float
    update_s: float
    publish_s: float
    checkpoint_s: float
    rest_s: float
    #: Of a group, as its worker measured; None without stored groups.
    generate_s: float | None = None
    score_s: float | None = None
    num_groups: int = 0


def step_parts(
    steps: Sequence[StepEvent], group_times: Sequence[tuple[int, int, float, float]] = ()
) -> list[StepParts]:
    """Return the parts of steps; `group_times` has (step, groups, generation_s, scoring_s)."""
    times = {step: (number, generate, score) for step, number, generate, score in group_times}
    found = []
    for one in steps:
        known = one.rollouts_s + one.update_s + one.publish_s + one.checkpoint_wait_s
        num_groups, generate, score = times.get(one.step, (0, None, None))
        found.append(
            StepParts(
                step=one.step,
                total_s=one.step_s,
                rollouts_s=one.rollouts_s,
                update_s=one.update_s,
                publish_s=one.publish_s,
                checkpoint_s=one.checkpoint_wait_s,
                rest_s=max(0.0, one.step_s - known),
                generate_s=generate,
                score_s=score,
                num_groups=num_groups,
            )
        )
    return found


def sentence(parts: Sequence[StepParts]) -> str:
    """Return who waited for whom in the last steps; empty without steps."""
    recent = parts[-_RECENT:]
    total = sum(one.total_s for one in recent)
    if total <= 0:
        return ""
    waits = sum(one.rollouts_s for one in recent)
    told = (
        f"In the last {len(recent)} steps, the trainer waits for rollouts {waits / total:.0%} of "
        f"its time, updates {sum(one.update_s for one in recent) / total:.0%} and publishes "
        f"{sum(one.publish_s for one in recent) / total:.0%}."
    )
    groups = [one for one in recent if one.generate_s is not None and one.score_s is not None]
    num_groups = sum(one.num_groups for one in groups)
    if not num_groups:
        return told
    generate = sum(one.num_groups * (one.generate_s or 0.0) for one in groups) / num_groups
    score = sum(one.num_groups * (one.score_s or 0.0) for one in groups) / num_groups
    longer = "inference" if generate >= score else "reward"
    return (
        f"{told} A group takes {generate:.2f} s in inference and {score:.2f} s in reward: "
        f"{longer} is the longer part."
    )
