"""Numbers of a run for the rules."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay_shared.statistics.interval import Interval
from assay_trainer.browser.diagnosis.judged_groups import JudgedGroup
from assay_trainer.events import SFTStep, StepEvent
from assay_trainer.grpo_config import GRPOConfig

#: A rule about the present reads this number of steps, the newest ones.
RECENT_STEPS = 50


@dataclass(frozen=True)
class DiagnosedFacts:
    """The numbers of a run. Steps are in their order, and steps replaced by a resume are gone.

    `group_times` has (step, groups, mean seconds in inference, mean seconds in reward).
    """

    steps: Sequence[StepEvent] = ()
    sft: Sequence[SFTStep] = ()
    #: None if the configuration cannot be read.
    grpo: GRPOConfig | None = None
    #: Of the last evaluation over the first, in pass@1 on held-out tasks.
    gain: Interval | None = None
    group_times: Sequence[tuple[int, int, float, float]] = ()
    judged: Sequence[JudgedGroup] = ()

    @property
    def recent(self) -> Sequence[StepEvent]:
        """Return the newest steps."""
        return self.steps[-RECENT_STEPS:]

    @property
    def of_stage(self) -> Sequence[StepEvent]:
        """Return the steps of the curriculum's last stage: tasks of another one differ from them.

        Without a curriculum, all steps.
        """
        stages = [one.curriculum_stage for one in self.steps]
        others = [at for at, stage in enumerate(stages) if stage != stages[-1]]
        return self.steps[others[-1] + 1 :] if others else self.steps
