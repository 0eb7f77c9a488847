"""calibration.json: what was measured of which judges, on what, and when."""

from datetime import datetime
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from assay_shared.errors import ConfigError


class Record(BaseModel):
    """Base of all parts. A measure is null where there was nothing to measure it on."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(Record):
    """A value with its 95% interval; `n` is the number of examples it stands on."""

    value: float
    low: float
    high: float
    n: int


class Said(Record):
    """What a judge said of examples with one gold label; `nothing` is an abstention."""

    correct: int
    incorrect: int
    unsure: int
    nothing: int


class Agreement(Record):
    """A judge against people. Kappa, accuracy and error rates are over decided examples."""

    num_examples: int
    of_correct: Said
    of_incorrect: Said
    kappa: Estimate | None
    accuracy: Estimate | None
    false_positive_rate: Estimate | None
    false_negative_rate: Estimate | None
    #: Shares of all examples that were decided, were UNSURE and were not judged; their sum is 1.
    coverage: Estimate
    unsure: Estimate
    abstained: Estimate


class Stability(Record):
    """A judge against itself, asked again."""

    num_repeats: int
    #: Examples with the same outcome each time: a label, UNSURE or none.
    same_outcome: Estimate
    #: Of those decided each time, the examples that got both labels.
    flips: Estimate | None
    #: Between the first two repeats.
    kappa: Estimate | None


class McNemar(Record):
    """Examples of which only one of two judges has a property, and the exact two-sided p."""

    only_primary: int
    only_this: int
    p: float


class AgainstPrimary(Record):
    """A fallback against the chain's first judge, over the examples that both decided."""

    primary: str
    agreement: Estimate | None
    kappa: Estimate | None
    #: Says CORRECT: whether the scale moves when the chain falls back.
    says_correct: McNemar
    #: Is right.
    is_right: McNemar


class PositionBias(Record):
    """Pairs judged in both orders. `flips`: the winner is another one when the order turns.

    `first_of_flips`: of the flips without a tie, those that chose what stood first both times; 1/2
    is no preference.
    """

    flips: Estimate
    first_of_flips: Estimate | None


class SelfPreference(Record):
    """False-positive rates by who wrote the answer; `difference` is own minus others."""

    family: str
    own: Estimate
    others: Estimate
    difference: Estimate


class ProbeResult(Record):
    """Wrong answers judged INCORRECT as they stood, with an attack put onto them."""

    name: str
    description: str
    #: Share that became CORRECT.
    flips: Estimate | None
    num_unsure: int
    num_abstained: int


class JudgeCalibration(Record):
    """All that was measured of one judge. `template` is the hash of its prompt."""

    judge: str
    model: str | None
    template: str | None
    overall: Agreement
    domains: dict[str, Agreement]
    stability: Stability | None
    against_primary: AgainstPrimary | None
    #: Partial rank correlation of saying CORRECT with the answer's length, given the gold label.
    length_bias: Estimate | None
    #: Null where no question has both a right and a wrong answer, or the judge compares none.
    position_bias: PositionBias | None
    self_preference: SelfPreference | None
    probes: tuple[ProbeResult, ...]
    #: The most frequent reasons of abstentions, with their number.
    failures: dict[str, int]


class Calibration(Record):
    """The file. `dataset_digest` is the SHA-256 of the examples' file."""

    created: datetime
    dataset: str
    dataset_digest: str
    num_examples: int
    judges: tuple[JudgeCalibration, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The calibration in a file.

        Raises:
            ConfigError: there is none that can be read.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise ConfigError(
                f"there is no calibration {path}", hint="`assay judge calibrate` writes one"
            ) from None
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or None
            raise ConfigError(f"{path} is no calibration: {first['msg']}", field=name) from None
