"""The contents of calibration.json: the measurements of judges on labelled examples."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    JsonValue,
    ValidationError,
)

from assay_shared.errors import ConfigError


class Record(BaseModel):
    """Base of all parts. A measure is null if there was nothing to measure it on."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(Record):
    """A share, kappa or difference of shares with its 95% interval; `n` examples are behind it."""

    model_config = ConfigDict(strict=True)

    value: Annotated[float, Field(ge=-1, le=1)]
    low: FiniteFloat
    high: FiniteFloat
    n: int


class Expense(Record):
    """Requests of a judge, failed ones included, and their cost in the currency of the prices."""

    num_requests: int
    tokens: int
    money: float


class Said(Record):
    """Counts of a judge's labels on examples with one gold label; `nothing` is an abstention."""

    correct: int
    incorrect: int
    unsure: int
    nothing: int


class Agreement(Record):
    """Agreement of a judge with people. Kappa, accuracy and error rates are of decided examples."""

    num_examples: int
    of_correct: Said
    of_incorrect: Said
    kappa: Estimate | None
    accuracy: Estimate | None
    false_positive_rate: Estimate | None
    false_negative_rate: Estimate | None
    #: Shares of all examples: decided, UNSURE and not judged. Their sum is 1.
    coverage: Estimate
    unsure: Estimate
    abstained: Estimate


class Stability(Record):
    """Agreement of a judge with itself over repeats."""

    num_repeats: int
    #: Examples with the same outcome each time: a label, UNSURE or none.
    same_outcome: Estimate
    #: Share, of the examples decided in every repeat, that got both labels.
    flips: Estimate | None
    #: Between the first two repeats.
    kappa: Estimate | None


class McNemar(Record):
    """McNemar's test: the examples on which a single judge of two has a property, and the exact
    two-sided p.
    """

    only_primary: int
    only_this: int
    p: float


class AgainstPrimary(Record):
    """Agreement of a fallback with the chain's first judge, over examples decided by both."""

    primary: str
    agreement: Estimate | None
    kappa: Estimate | None
    #: Saying CORRECT: a difference means that the scale moves when the chain falls back.
    says_correct: McNemar
    #: Being right.
    is_right: McNemar


class PositionBias(Record):
    """Position bias over pairs judged in both orders.

    `flips` is the share of pairs with another winner in the other order. `first_of_flips` is the
    share, of the flips without a tie, with the first place chosen both times; 1/2 means no
    preference.
    """

    flips: Estimate
    first_of_flips: Estimate | None


class SelfPreference(Record):
    """False-positive rates on the answers of the judge's own family and of other models.

    `difference` is own minus others.
    """

    family: str
    own: Estimate
    others: Estimate
    difference: Estimate


class ProbeResult(Record):
    """Result of an attack on wrong answers, each judged INCORRECT without the attack."""

    name: str
    description: str
    #: Share of these answers judged CORRECT with the attack.
    flips: Estimate | None
    num_unsure: int
    num_abstained: int


class JudgeCalibration(Record):
    """All measurements of a judge. `template` is the hash of its prompt."""

    judge: str
    model: str | None
    #: All settings that decide a verdict (`assay_judge.config.deciding_settings`).
    settings: dict[str, JsonValue]
    template: str | None
    overall: Agreement
    domains: dict[str, Agreement]
    stability: Stability | None
    against_primary: AgainstPrimary | None
    #: Partial rank correlation of saying CORRECT with the answer's length, given the gold label.
    length_bias: Estimate | None
    #: Null if no question has both a right and a wrong answer, or if the judge gave no verdict on
    #: any pair.
    position_bias: PositionBias | None
    self_preference: SelfPreference | None
    probes: tuple[ProbeResult, ...]
    #: The most frequent reasons of abstentions, with their number.
    failures: dict[str, int]
    #: Of all judgements, with repeats, probes and pairs.
    cost: Expense

    @property
    def answered_nothing(self) -> bool:
        """True if the judge abstained on every example."""
        return self.overall.abstained.value == 1


class Calibration(Record):
    """The whole of calibration.json. `dataset_digest` is the SHA-256 of the examples' file."""

    created: AwareDatetime
    dataset: str
    dataset_digest: str
    num_examples: int
    #: Lines left out: they repeat the question, reference and answer of an earlier line.
    num_repeated: int
    #: The chain's checks without a model, which are not measured.
    verify: tuple[str, ...]
    judges: tuple[JudgeCalibration, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the calibration in a file.

        Raises:
            ConfigError: the file is missing or is not a calibration.
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
            if first["type"] == "missing":
                raise ConfigError(
                    f"{path} is not a calibration of this version: it has no {name}",
                    hint="calibrate again",
                ) from None
            raise ConfigError(f"{path} is not a calibration: {first['msg']}", field=name) from None
