"""Requests to a judge, and its verdicts."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from assay_shared.types.failure import Failure
from assay_shared.types.scales import check_distinct, check_scale
from assay_shared.types.wire import Wire, check_utf8


class Label(StrEnum):
    """A judge's finding. UNSURE is a finding too, not a failure to judge."""

    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    UNSURE = "UNSURE"


class JudgeForm(StrEnum):
    """The kind of question for a judge.

    `binary`: is each answer right? `graded`: a grade on each criterion. `pairwise`: the better of
    two answers, asked in both orders. `best_of`: the best of several answers, asked in rotated
    orders.
    """

    BINARY = "binary"
    GRADED = "graded"
    PAIRWISE = "pairwise"
    BEST_OF = "best_of"


class Criterion(Wire):
    """A criterion to grade on, with a scale from `low` to `high` in whole steps."""

    #: The name of the grade.
    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")
    #: The description that the judge reads.
    description: str = Field(max_length=4000)
    #: The lowest grade.
    low: int = Field(default=1, ge=-1000, le=1000)
    #: The highest grade.
    high: int = Field(default=5, ge=-1000, le=1000)
    #: The weight of this criterion among all criteria.
    weight: float = Field(default=1.0, ge=0.001, le=1000, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_a_scale(self) -> "Criterion":
        check_scale(self.name, self.low, self.high)
        return self


def _distinct(criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    check_distinct([one.name for one in criteria])
    return criteria


Criteria = Annotated[tuple[Criterion, ...], Field(max_length=16), AfterValidator(_distinct)]


#: Part of a prompt; prompts are sent in UTF-8.
JudgedText = Annotated[str, AfterValidator(check_utf8)]


class JudgeRequest(Wire):
    """A group of answers to the same question. A single judge decides all of them, or none."""

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

    #: The question that was asked.
    question: JudgedText
    #: The answers to judge; each gets one judgement, in order.
    answers: tuple[JudgedText, ...] = Field(min_length=1, max_length=256)
    #: A right answer; without one the judge knows only the question.
    reference: JudgedText | None = None
    #: The kind of question for the judge.
    form: JudgeForm = JudgeForm.BINARY
    #: The criteria to grade on if the form is `graded`.
    criteria: Criteria = ()
    #: The name of an operator's prompt to use in place of the form's own.
    template: str | None = None
    #: The subject of the question; a judge may be allowed for some domains only.
    domain: str = ""
    #: The run to charge the cost to, as well as the caller.
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


class JudgeAttempt(Wire):
    """What a judge of the chain was asked about an answer, and why it gave no finding, if so."""

    #: The provider's name in the chain.
    judge: str
    #: Requests to its model; 0 if the reply was known already or no model is behind it.
    num_requests: int = Field(default=0, ge=0)
    #: Why it gave no finding; empty if it gave one.
    failed: str = ""


class Verdict(Wire):
    """A finding, with the judge that made it. `template` is the hash of the used prompt."""

    #: Marks a verdict.
    status: Literal["judged"] = "judged"
    #: For the form `binary` only.
    label: Label | None = None
    #: In [0, 1]. Graded: the weighted mean of the grades on their scales. Pairwise: 1 for the
    #: better answer, 0.5 for both of a tie. Best-of: the share of orders in which it was the best.
    score: float | None = Field(default=None, ge=0, le=1)
    #: Pairwise and best-of: the index of the chosen answer in each order; null for a tie.
    choices: tuple[int | None, ...] = ()
    #: The grade of each criterion, on the criterion's own scale.
    grades: dict[str, int] = {}
    #: The judge's own words.
    reason: str = ""
    #: The provider or the check that decided.
    judge: str
    #: The hash of the used prompt; null if no prompt was used.
    template: str | None = None
    #: Number of counted replies; more than one if the first was in doubt.
    num_votes: int = 1
    #: All judges that were asked, in their order; empty if a check decided.
    history: tuple[JudgeAttempt, ...] = ()


class Abstention(Wire):
    """No verdict: every judge of the chain failed."""

    #: Marks a missing verdict.
    status: Literal["failed"] = "failed"
    #: Why there is no verdict.
    failure: Failure
    #: All judges that were asked, in their order.
    history: tuple[JudgeAttempt, ...] = ()


Judgement = Annotated[Verdict | Abstention, Field(discriminator="status")]


class Cost(Wire):
    """Countable resources used by a request. `money` is in the unit of the judge's prices."""

    #: Processor time in the sandbox, in seconds.
    sandbox_cpu_s: float = 0.0
    #: Tokens of all prompts and replies.
    judge_tokens: int = 0
    #: The part of `judge_tokens` that is estimated, as the provider reported no number.
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
    """Judgements of the answers, in order. Their models' verdicts name the same judge; a verdict
    by a check names the check.

    `cost` is the cost of this request, all its failed attempts included.
    """

    #: One for each answer, in order.
    judgements: tuple[Judgement, ...]
    #: The cost of this request, all its failed attempts included.
    cost: Cost = Cost()
