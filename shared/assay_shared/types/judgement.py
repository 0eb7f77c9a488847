"""What a judge is asked, and its verdicts."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from assay_shared.types.failure import Failure
from assay_shared.types.scales import check_distinct, check_scale
from assay_shared.types.wire import Wire, check_utf8


class Label(StrEnum):
    """A judge's finding; UNSURE is a finding too, and not a failure to judge."""

    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    UNSURE = "UNSURE"


class JudgeForm(StrEnum):
    """What is asked of a judge.

    `binary`: whether each answer is right. `graded`: a grade on each criterion. `pairwise`: which
    of two answers is better, asked in both orders. `best_of`: which of several is best, asked in
    rotated orders.
    """

    BINARY = "binary"
    GRADED = "graded"
    PAIRWISE = "pairwise"
    BEST_OF = "best_of"


class Criterion(Wire):
    """One thing to grade, on a scale from `low` to `high` in whole steps."""

    #: What its grade is called.
    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")
    #: What the judge is told about it.
    description: str = Field(max_length=4000)
    #: The lowest grade.
    low: int = Field(default=1, ge=-1000, le=1000)
    #: The highest grade.
    high: int = Field(default=5, ge=-1000, le=1000)
    #: How much it counts beside the others.
    weight: float = Field(default=1.0, ge=0.001, le=1000, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_a_scale(self) -> "Criterion":
        check_scale(self.name, self.low, self.high)
        return self


def _distinct(criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    check_distinct([one.name for one in criteria])
    return criteria


Criteria = Annotated[tuple[Criterion, ...], Field(max_length=16), AfterValidator(_distinct)]


#: A prompt is made of it, which is sent in UTF-8.
JudgedText = Annotated[str, AfterValidator(check_utf8)]


class JudgeRequest(Wire):
    """A group of answers to one question. One judge decides them all, or none is decided."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "question": "The capital of France?",
                    "reference": "Paris",
                    "answers": ["paris.", "Lyon"],
                },
                {
                    "form": "pairwise",
                    "question": "The capital of France?",
                    "reference": "Paris",
                    "answers": ["Lyon", "Paris"],
                },
            ]
        }
    )

    #: What was asked.
    question: JudgedText
    #: One judgement is given for each, in order.
    answers: tuple[JudgedText, ...] = Field(min_length=1, max_length=256)
    #: A right answer; without one the judge knows only the question.
    reference: JudgedText | None = None
    #: What is asked of the judge.
    form: JudgeForm = JudgeForm.BINARY
    #: What is graded, where the form is `graded`.
    criteria: Criteria = ()
    #: A prompt of the operator's in place of the form's own, by name.
    template: str | None = None
    #: What the question is about; a judge may be allowed for some domains only.
    domain: str = ""
    #: Whom the cost is charged to, beside the caller.
    run: str = ""

    @model_validator(mode="after")
    def _fits_its_form(self) -> "JudgeRequest":
        if (self.form is JudgeForm.GRADED) != bool(self.criteria):
            raise ValueError("criteria go with the form `graded`, which needs at least one")
        if self.form is JudgeForm.PAIRWISE and len(self.answers) != 2:
            raise ValueError("the form `pairwise` needs two answers")
        if self.form is JudgeForm.BEST_OF and not 2 <= len(self.answers) <= 16:
            raise ValueError("the form `best_of` needs 2 to 16 answers")
        return self


class Verdict(Wire):
    """A finding, and who made it. `template` is the hash of the prompt that was used."""

    #: Says that there is a verdict.
    status: Literal["judged"] = "judged"
    #: Of the form `binary`.
    label: Label | None = None
    #: In [0, 1]. Graded: the weighted mean of the grades on their scales. Pairwise: 1 for the
    #: better answer, 0.5 for both of a tie. Best-of: the share of orders in which it was the best.
    score: float | None = Field(default=None, ge=0, le=1)
    #: Pairwise and best-of: the index of the answer that was chosen in each order; null for a tie.
    choices: tuple[int | None, ...] = ()
    #: By criterion, on its own scale.
    grades: dict[str, int] = {}
    #: The judge's own words.
    reason: str = ""
    #: The provider or the check that decided.
    judge: str
    #: The hash of the prompt that was used; null where there was none.
    template: str | None = None
    #: Replies that were counted; more than one where the first was in doubt.
    num_votes: int = 1


class Abstention(Wire):
    """No verdict: every judge of the chain failed."""

    #: Says that there is no verdict.
    status: Literal["failed"] = "failed"
    #: Why not.
    failure: Failure


Judgement = Annotated[Verdict | Abstention, Field(discriminator="status")]


class Cost(Wire):
    """What was used up; only what can be counted. `money` is in the unit of the judge's prices."""

    #: Processor time in the sandbox, in seconds.
    sandbox_cpu_s: float = 0.0
    #: Tokens of all prompts and replies.
    judge_tokens: int = 0
    #: Of `judge_tokens`, those of requests whose provider did not say how many it took.
    estimated_tokens: int = 0
    #: In the unit of the judge's prices.
    money: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            sandbox_cpu_s=self.sandbox_cpu_s + other.sandbox_cpu_s,
            judge_tokens=self.judge_tokens + other.judge_tokens,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
            money=self.money + other.money,
        )


class JudgeResponse(Wire):
    """One judgement per answer, in order; all verdicts name the same judge.

    `cost` is what this request cost, all its failed attempts included.
    """

    #: One for each answer, in order.
    judgements: tuple[Judgement, ...]
    #: Of this request, all its failed attempts included.
    cost: Cost = Cost()
