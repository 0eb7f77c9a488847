"""The rows of an ablation's report: values, changes, goals, ranking."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, FiniteFloat

from assay_trainer.ablation.decomposition.findings import Decomposition, PlantedChange
from assay_trainer.evaluation.metrics.failed_samples import FailedCount


class JudgedVerdict(StrEnum):
    """PASS: better, or a goal met, beyond chance. FAIL: worse, or missed. INCONCLUSIVE: neither."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class JudgedRow(BaseModel):
    """A part of a report."""

    model_config = ConfigDict(frozen=True)


class ValueBounds(JudgedRow):
    """A number with its interval; without bounds, one that has none."""

    value: FiniteFloat
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None


class CountedAgainst(JudgedRow):
    """The effect of failed samples on a verdict: it has to hold with them counted against it.

    A failed sample counts as the metric's lowest or highest number, whichever is against.
    """

    counts: list[FailedCount]
    #: The number of each failed sample: of the arm, and of the other side.
    counted: tuple[FiniteFloat, FiniteFloat]
    #: Null if it cannot be told.
    found: ValueBounds | None
    #: Holm's; null of a goal.
    p_corrected: FiniteFloat | None = None
    #: By the scored samples alone.
    verdict_without: JudgedVerdict


class TableRow(JudgedRow):
    """A policy's value of a metric on a set."""

    #: An arm, `start`, or the name of a trivial policy.
    policy: str
    kind: str
    set: str
    metric: str
    value: ValueBounds
    #: Each seed's mean, in the order of the seeds.
    seeds: list[FiniteFloat] = []
    num_tasks: int
    #: The failed samples of the policy on the set; null if there are none.
    failed: FailedCount | None = None


class ChangeRow(JudgedRow):
    """The difference of an arm to another one, over shared seeds and tasks."""

    arm: str
    against: str
    set: str
    metric: str
    change: ValueBounds
    p: FiniteFloat
    #: Holm's, over all rows of its family.
    p_corrected: FiniteFloat
    #: The metric of the same set whose numbers are all the same; both count once in Holm's.
    same_as: str | None = None
    num_seeds: int
    num_tasks: int
    freedom: FiniteFloat
    #: The smallest true difference that 80% of repeats would find, at the family's strictest level;
    #: null if no difference that the metric can have would be, as with fewer than four seeds.
    detectable: FiniteFloat | None
    verdict: JudgedVerdict
    #: Null without failed samples.
    failed: CountedAgainst | None = None
    #: False if lower is better.
    higher_is_better: bool = True


class NoiseRow(JudgedRow):
    """A/A: differences between the seeds of an arm."""

    set: str
    metric: str
    num_pairs: int
    #: Deviation between the seeds of an arm, pooled over arms.
    deviation: FiniteFloat
    #: Difference of two seeds of one arm: the median and the largest of all pairs.
    median: FiniteFloat
    largest: FiniteFloat
    #: What 95% of such differences are below if means are normal, by the deviation.
    floor: FiniteFloat


class GoalRow(JudgedRow):
    """A goal of the file."""

    goal: str
    found: ValueBounds | None
    verdict: JudgedVerdict
    reason: str = ""
    failed: CountedAgainst | None = None


class ArmRow(JudgedRow):
    """An arm: what it changes, whether it is compared, and what it cost."""

    name: str
    previous: str | None
    #: The trained arm that it is compared with.
    against: str | None
    changed: dict[str, tuple[str, str]]
    #: COMPARED; UNKNOWN if no update was made in it or in `against`, compared all the same; or the
    #: reason why it is not ranked: NO EFFECT, SCALE ONLY, OTHER UNITS, REFUSED, FAILED.
    state: str
    reason: str = ""
    decomposition: Decomposition | None = None
    updates: int = 0
    #: Sampled tokens over all seeds, by the groups played and the mean length of trained answers.
    drawn_tokens: float = 0.0
    took_s: float = 0.0
    #: Draws trained on in both arms, over those of either; the mean over seeds.
    shared_draws: float | None = None
    rank: int | None = None
    #: Over its seeds, of the step events.
    meters: dict[str, FiniteFloat] = {}


class ArmCurvePoint(JudgedRow):
    """A point of an arm's curve: of one seed after some updates."""

    arm: str
    seed: int
    step: int
    drawn_tokens: float
    #: `training pass rate`, or the set whose share of right answers it is.
    name: str
    value: FiniteFloat


class AblationReport(JudgedRow):
    """report.json."""

    form: int = 1
    name: str
    mode: str
    seeds: list[int]
    confidence: float
    metrics: list[str]
    controls_work: bool
    controls: list[PlantedChange]
    arms: list[ArmRow]
    table: list[TableRow]
    changes: list[ChangeRow]
    to_baseline: list[ChangeRow]
    noise: list[NoiseRow]
    goals: list[GoalRow]
    ranking: list[str]
    winner: str | None
    winner_reason: str
    start_digest: str
    curves: list[ArmCurvePoint]
    notes: list[str]

    @property
    def succeeded(self) -> bool:
        """Return True if the checks work, and no goal was missed."""
        missed = any(one.verdict is JudgedVerdict.FAIL for one in self.goals)
        return self.controls_work and not missed
