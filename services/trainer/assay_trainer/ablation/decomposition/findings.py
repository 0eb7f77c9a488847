"""The findings of a decomposition, as files and reports have them."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class SwitchVerdict(StrEnum):
    """What a change of settings does to training.

    ACTS: to the direction of the gradient, the samples, or on purpose the size of the updates.
    WEAK: to less than 1% of the gradient, in direction and in size. SCALE_ONLY: to the size alone.
    NO_EFFECT: to nothing. OTHER_UNITS: the rewards are the old ones in other units. UNKNOWN: the
    stored batches cannot tell.
    """

    ACTS = "ACTS"
    WEAK = "WEAK"
    SCALE_ONLY = "SCALE ONLY"
    NO_EFFECT = "NO EFFECT"
    OTHER_UNITS = "OTHER UNITS"
    UNKNOWN = "UNKNOWN"

    @property
    def is_compared(self) -> bool:
        """True if an arm of this verdict is trained and compared."""
        return self in (SwitchVerdict.ACTS, SwitchVerdict.WEAK, SwitchVerdict.UNKNOWN)


class FrozenFinding(BaseModel):
    """A part of a decomposition."""

    model_config = ConfigDict(frozen=True)


class BatchParts(FrozenFinding):
    """A stored batch under both settings; see `gradients.GradientParts`."""

    #: The run of the batch; empty for a planted change, whose file names it.
    run: str = ""
    step: int
    num_groups: int
    num_updates: int
    difference: float
    scale: float
    direction: float
    #: The largest direction of all updates, and the scale that is furthest from 1, where both
    #: settings meet the weights of the old one; null where they take other numbers of updates.
    update_direction: float | None = None
    update_scale: float | None = None
    #: `difference` and so on of the weights' change over the step's updates.
    change_difference: float
    change_scale: float
    change_direction: float
    #: `difference` of the old settings computed twice: the noise of the computation.
    noise: float
    #: True without a gradient under both settings, as of groups without signal: it tells nothing.
    is_empty: bool = False


class SamplerFinding(FrozenFinding):
    """What a change does to the samples that are trained on."""

    verdict: SwitchVerdict
    reason: str
    #: Shared groups over all groups of the stored batches, where both sides are known.
    jaccard: float | None = None


class RewardUnits(FrozenFinding):
    """New rewards as scale x old + offset, over the same answers."""

    verdict: SwitchVerdict
    scale: float
    offset: float
    r_squared: float
    num_answers: int


class Decomposition(FrozenFinding):
    """decompositions/ARM.json: an arm and its comparison arm."""

    arm: str
    previous: str
    #: The run of the stored batches read first.
    run: str
    #: All finished runs of the comparison arm: their samples and events were read.
    runs: list[str] = []
    #: Settings that differ: old and new, as JSON.
    changed: dict[str, tuple[str, str]]
    batches: list[BatchParts]
    sampler: SamplerFinding | None
    verdict: SwitchVerdict
    reason: str


class PlantedChange(FrozenFinding):
    """A change that was planted, with what the checks must say about it."""

    name: str
    planted: str
    expected: list[SwitchVerdict]
    found: SwitchVerdict
    reason: str
    parts: BatchParts | None = None
    reward: RewardUnits | None = None

    @property
    def is_found(self) -> bool:
        return self.found in self.expected


class PlantedChanges(FrozenFinding):
    """controls.json: all planted changes of an ablation."""

    run: str
    controls: list[PlantedChange]

    @property
    def work(self) -> bool:
        """True if every planted change was found."""
        return bool(self.controls) and all(one.is_found for one in self.controls)
