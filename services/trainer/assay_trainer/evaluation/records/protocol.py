"""The protocol of an evaluation: all that decides a number, apart from the policy and the tasks."""

import hashlib
import json
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from assay_shared.repair.feedback import LEAST_TOKENS
from assay_shared.settings.run_file import Config
from assay_shared.types import PromptFormat

#: Answers of a task that are compared with each other.
MAX_VOTES = 256


class ProtocolKind(StrEnum):
    """How answers are chosen and counted.

    `greedy`: one answer of temperature 0 (EVAL@1). `sampled`: n answers, pass@k drawn over k
    (EVAL@k; arXiv 2107.03374). `budget`: answers until a number of drawn tokens a task is used
    (EVAL@budget). `majority`: the most frequent of n final answers counts. `likelihood`: the most
    likely option counts; nothing is sampled. `repair`: a program that fails is answered by
    feedback, and the policy tries again, up to `rounds` programs.
    """

    GREEDY = "greedy"
    SAMPLED = "sampled"
    BUDGET = "budget"
    MAJORITY = "majority"
    LIKELIHOOD = "likelihood"
    REPAIR = "repair"


class OptionForm(StrEnum):
    """What `likelihood` reads of an option: its letter after the listed options, or its text."""

    LETTERS = "letters"
    TEXTS = "texts"


class OptionScore(StrEnum):
    """How the tokens of an option are counted: the sum of their log-probabilities, or the mean."""

    SUM = "sum"
    MEAN = "mean"


#: Fields that other kinds do not have, not even in their digest.
_OF_REPAIR = ("rounds", "visible_tests", "feedback_tokens")


def _in_order(values: tuple[int, ...]) -> tuple[int, ...]:
    """Return each value once, the smallest first: the order changes no number."""
    return tuple(sorted(set(values)))


class Protocol(Config):
    """The protocol of an evaluation. Only results of one digest are comparable."""

    kind: ProtocolKind = ProtocolKind.GREEDY
    #: Answers to each task; the most of them for `budget`.
    samples_per_task: int = Field(default=1, ge=1, le=1024)
    #: The k of each pass@k.
    k: Annotated[tuple[Annotated[int, Field(ge=1)], ...], AfterValidator(_in_order)] = (1,)
    #: Drawn tokens of a task, for `budget`.
    budget_tokens: int | None = Field(default=None, gt=0)
    #: The most tokens of one answer.
    max_tokens: int = Field(default=512, gt=0)
    temperature: float = Field(default=0.0, ge=0, le=10)
    top_p: float = Field(default=1.0, gt=0, le=1)
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), max_length=8)
    #: A system message before each prompt.
    system: str | None = None
    #: Arguments of the chat template, such as enable_thinking.
    template_arguments: dict[str, JsonValue] = {}
    #: Whether all prompts go through the chat template, or none; else each task says it.
    prompt_format: PromptFormat | None = None
    #: For `likelihood`.
    options: OptionForm = OptionForm.LETTERS
    option_score: OptionScore = OptionScore.SUM
    #: Of `repair`: the most programs of a sample.
    rounds: int | None = Field(default=None, ge=2, le=16)
    #: Of `repair`: how many of a task's first tests the feedback may show; null for the tests that
    #: the task itself makes public.
    visible_tests: int | None = Field(default=None, ge=0, le=64)
    #: Of `repair`: the most tokens of a feedback, by an estimate from above.
    feedback_tokens: int | None = Field(default=None, ge=LEAST_TOKENS, le=4096)
    seed: int = Field(default=0, ge=0, lt=2**32)

    @model_validator(mode="after")
    def _settings_fit(self) -> Self:
        is_greedy = self.kind in (ProtocolKind.GREEDY, ProtocolKind.LIKELIHOOD)
        if is_greedy and (self.samples_per_task != 1 or self.temperature != 0.0):
            raise ValueError(f"{self.kind} has one answer a task, and temperature 0")
        if not is_greedy and self.temperature == 0.0:
            raise ValueError(f"{self.kind} needs a temperature above 0")
        if (self.kind is ProtocolKind.BUDGET) != (self.budget_tokens is not None):
            raise ValueError("budget_tokens goes with kind budget, which needs it")
        self._check_repair()
        if max(self.k, default=0) > self.samples_per_task:
            raise ValueError(f"pass@{max(self.k)} needs as many samples_per_task")
        if self.kind is ProtocolKind.MAJORITY and self.samples_per_task > MAX_VOTES:
            raise ValueError(f"majority takes {MAX_VOTES} samples_per_task at most")
        if self.prompt_format is PromptFormat.RAW and (self.system or self.template_arguments):
            raise ValueError("system and template_arguments do not reach raw prompts")
        return self

    def _check_repair(self) -> None:
        if self.kind is ProtocolKind.REPAIR:
            if self.rounds is None:
                raise ValueError("rounds goes with kind repair, which needs it")
            return
        for name in _OF_REPAIR:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} goes with kind repair")

    @property
    def of_single_answers(self) -> "Protocol":
        """Return the protocol whose samples are answers without rounds, sampled alike."""
        update = {"kind": ProtocolKind.SAMPLED, **dict.fromkeys(_OF_REPAIR)}
        return self.model_copy(update=update)

    @property
    def longest_answer(self) -> int:
        """Return the most tokens of one answer; 0 of `likelihood`, which samples nothing."""
        if self.kind is ProtocolKind.LIKELIHOOD:
            return 0
        return min(self.max_tokens, self.budget_tokens or self.max_tokens)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the protocol's fields; those of `repair` count for it alone."""
        left_out = set() if self.kind is ProtocolKind.REPAIR else set(_OF_REPAIR)
        fields = json.dumps(self.model_dump(mode="json", exclude=left_out), sort_keys=True)
        return hashlib.sha256(fields.encode()).hexdigest()

    def differences(self, other: "Protocol") -> list[str]:
        """Return each field in which `other` differs, with both values."""
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        return [
            f"{name}: {json.dumps(mine[name])}, not {json.dumps(theirs[name])}"
            for name in mine
            if mine[name] != theirs[name]
        ]
