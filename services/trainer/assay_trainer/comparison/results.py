"""The results of a comparison, as comparison_data.json holds them."""

from enum import StrEnum
from math import isfinite

from pydantic import BaseModel, ConfigDict

from assay_shared.statistics.interval import Interval
from assay_trainer.comparison.metrics import Better, MetricUnit


class RowVerdict(StrEnum):
    """The finding of a row; see docs/comparison.md."""

    BETTER = "BETTER"
    WORSE = "WORSE"
    SAME = "SAME"
    INCONCLUSIVE = "INCONCLUSIVE"
    #: The baseline lacks the set or the metric.
    NEW = "new"
    #: The other side lacks it.
    MISSING = "missing"
    #: Shown without a test.
    UNTESTED = "-"


class PairedTest(StrEnum):
    """The test of a row."""

    MCNEMAR = "exact McNemar"
    SIGN_FLIPS = "sign flips"
    LABEL_SWAPS = "label swaps"


class FrozenResult(BaseModel):
    """The base of all results: closed, and without infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Bounds(FrozenResult):
    """An estimate with its interval; null is an infinite bound, or an unknown one."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, interval: Interval | None) -> "Bounds | None":
        """Return an interval as a result; None for an infinite estimate."""
        if interval is None or not isfinite(interval.value):
            return None
        low, high = (one if isfinite(one) else None for one in (interval.low, interval.high))
        return cls(value=interval.value, low=low, high=high)

    @property
    def interval(self) -> Interval:
        """The estimate as an interval of plain numbers."""
        low = float("-inf") if self.low is None else self.low
        high = float("inf") if self.high is None else self.high
        return Interval(self.value, low, high)


class SeedSpread(FrozenResult):
    """The values of an arm's seeds, with their mean and standard deviation."""

    values: list[float]
    mean: float
    #: Of the sample (n - 1); null for one seed.
    std: float | None


class UncomparedTasks(FrozenResult):
    """Tasks that do not count in a row, by reason."""

    only_in_baseline: int = 0
    only_in_arm: int = 0
    without_score: int = 0
    #: Fewer scored samples than k, or a number that was not recorded.
    too_few_samples: int = 0

    @property
    def total(self) -> int:
        """The number of tasks left out."""
        return sum(self.model_dump().values())


class FailureBounds(FrozenResult):
    """The effect of failed samples: a verdict has to hold with them counted against it."""

    #: Over the shared tasks: failed samples, and all.
    baseline_failed: int
    baseline_samples: int
    arm_failed: int
    arm_samples: int
    #: The number of each failed sample in `against`.
    baseline_counted: float
    arm_counted: float
    #: The row's headline with failed samples counted against it; null if it cannot be told.
    against: Bounds | None
    p: float
    p_corrected: float | None = None
    p_equivalence: float | None = None
    p_equivalence_corrected: float | None = None
    #: The row's changes, each with bounds that hold whatever the failed samples would have been.
    difference: Bounds | None
    relative: Bounds | None
    #: By the scored samples alone.
    verdict_without: RowVerdict = RowVerdict.UNTESTED


class ComparedRow(FrozenResult):
    """A metric of a set, baseline against arm, over the tasks with scored samples on both sides."""

    set: str
    #: `tag=value`; null for the whole set.
    stratum: str | None
    metric: str
    title: str
    unit: MetricUnit
    better: Better
    arm: str
    num_tasks: int
    left_out: UncomparedTasks
    #: Moves with the machine and its load: shown without a change.
    of_machine: bool = False
    #: The metric with the same value of every task: that one has the test.
    equal_to: str | None = None
    baseline: Bounds | None
    value: Bounds | None
    #: ComparedArm minus baseline, in the metric's unit; a share's 0.01 is a point.
    difference: Bounds | None = None
    #: 0.1 is 10% more than the baseline.
    relative: Bounds | None = None
    #: Tasks with a higher, and with a lower value than in the baseline.
    num_up: int = 0
    num_down: int = 0
    test: PairedTest | None = None
    p: float | None = None
    #: Corrected for all tests of the report (Holm).
    p_corrected: float | None = None
    #: Of the two one-sided tests for a difference within the margin, and corrected.
    p_equivalence: float | None = None
    p_equivalence_corrected: float | None = None
    margin: float | None = None
    #: The smallest difference that can be significant with this many differing tasks.
    smallest_significant: float | None = None
    #: The smallest true difference found in 80% of repeats; of a ratio, the relative change.
    detectable: float | None = None
    seeds_baseline: SeedSpread | None = None
    seeds_arm: SeedSpread | None = None
    verdict: RowVerdict = RowVerdict.UNTESTED
    #: Null without failed samples, and of a row without a test.
    failed: FailureBounds | None = None

    @property
    def is_relative(self) -> bool:
        """True if the relative change is the row's headline: tokens, seconds, and costs."""
        return self.unit is not MetricUnit.SHARE

    @property
    def headline(self) -> Bounds | None:
        """The change that test and verdict are about."""
        return self.relative if self.is_relative else self.difference

    def bounds(self, *, is_relative: bool) -> Bounds | None:
        """Return the change with bounds that hold whatever failed samples would have been."""
        found: ComparedRow | FailureBounds = self if self.failed is None else self.failed
        return found.relative if is_relative else found.difference

    @property
    def place(self) -> str:
        """The set with its stratum."""
        return self.set if self.stratum is None else f"{self.set}[{self.stratum}]"
