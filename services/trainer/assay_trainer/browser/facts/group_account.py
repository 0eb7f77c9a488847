"""The account of a run's groups: each one asked for is trained on, discarded, or in flight."""

from collections.abc import Mapping
from dataclasses import dataclass

from assay_trainer.events import StepEvent


@dataclass(frozen=True)
class GroupAccount:
    """Groups of a run up to its last step.

    `failed_samples` are samples without a score; groups stand in one of the other numbers.
    """

    step: int
    asked: int
    trained: int
    discarded: int
    in_flight: int
    failed_samples: int

    @property
    def missing(self) -> int:
        """The groups that are nowhere; negative if some were counted twice."""
        return self.asked - self.trained - self.discarded - self.in_flight


def group_account(steps: Mapping[int, StepEvent], resumed_at: int) -> GroupAccount | None:
    """Return the account of the living steps; None without a step that has the numbers.

    Args:
        steps: the living steps by number.
        resumed_at: the step after which GRPO was resumed last; 0 without a resume.
    """
    if not steps:
        return None
    last = steps[max(steps)]
    if last.num_asked is None or last.num_in_flight is None:
        return None
    trained = sum(one.num_groups for one in steps.values())
    before = sum(_num_back(one) for one in steps.values() if one.step <= resumed_at)
    return GroupAccount(
        step=last.step,
        asked=before + last.num_asked,
        trained=trained,
        discarded=sum(map(_num_back, steps.values())) - trained,
        in_flight=last.num_in_flight,
        failed_samples=sum(sum(one.failures.values()) for one in steps.values()),
    )


def _num_back(step: StepEvent) -> int:
    """Return the groups that came back in a step."""
    return step.num_played + step.num_flat_before
