"""The protocol of an evaluation: all that decides a number, apart from the policy and the tasks."""

import hashlib
import json
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, JsonValue, model_validator

from assay_shared.settings.run_file import Config
from assay_shared.types import PromptFormat

#: Answers of a task that are compared with each other.
MAX_VOTES = 256


class ProtocolKind(StrEnum):
    """How answers are chosen and counted.

    `greedy`: one answer of temperature 0 (EVAL@1). `sampled`: n answers, pass@k drawn over k
    (EVAL@k; arXiv 2107.03374). `budget`: answers until a number of drawn tokens a task is used
    (EVAL@budget). `majority`: the most frequent of n final answers counts. `likelihood`: the most
    likely option counts; nothing is sampled.
    """

    GREEDY = "greedy"
    SAMPLED = "sampled"
    BUDGET = "budget"
    MAJORITY = "majority"
    LIKELIHOOD = "likelihood"


class OptionForm(StrEnum):
    """What `likelihood` reads of an option: its letter after the listed options, or its text."""

    LETTERS = "letters"
    TEXTS = "texts"


class OptionScore(StrEnum):
    """How the tokens of an option are counted: the sum of their log-probabilities, or the mean."""

    SUM = "sum"
    MEAN = "mean"


class Protocol(Config):
    """The protocol of an evaluation. Only results of one digest are comparable."""

    kind: ProtocolKind = ProtocolKind.GREEDY
    #: Answers to each task; the most of them for `budget`.
    samples_per_task: int = Field(default=1, ge=1, le=1024)
    #: The k of each pass@k.
    k: tuple[Annotated[int, Field(ge=1)], ...] = (1,)
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
        if max(self.k, default=0) > self.samples_per_task:
            raise ValueError(f"pass@{max(self.k)} needs as many samples_per_task")
        if self.kind is ProtocolKind.MAJORITY and self.samples_per_task > MAX_VOTES:
            raise ValueError(f"majority takes {MAX_VOTES} samples_per_task at most")
        if self.prompt_format is PromptFormat.RAW and (self.system or self.template_arguments):
            raise ValueError("system and template_arguments do not reach raw prompts")
        return self

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the protocol's fields."""
        fields = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(fields.encode()).hexdigest()

    def differences(self, other: "Protocol") -> list[str]:
        """Return each field in which `other` differs, with both values."""
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        return [
            f"{name}: {json.dumps(mine[name])}, not {json.dumps(theirs[name])}"
            for name in mine
            if mine[name] != theirs[name]
        ]
