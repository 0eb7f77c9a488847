"""The executor's YAML configuration: its models, first choice first, and their limits."""

from typing import Self

from pydantic import Field, model_validator

from assay_shared.providers.config import ModelConfig
from assay_shared.settings.run_file import Config


class WorkflowBudget(Config):
    """Limits of one workflow, over all models that it falls back to."""

    #: Calls of operators to the executor.
    max_calls: int = Field(default=64, ge=1)
    #: Tokens of prompts and replies together, failed replies included.
    max_tokens: int = Field(default=200_000, ge=1)
    #: Time from the start of the workflow.
    timeout_s: float = Field(default=600.0, gt=0)


class ExecutorConfig(Config):
    """The models of the executor, with a workflow's budget and the limits of the service."""

    #: First choice first: a workflow that a model leaves undone starts again on the next one.
    models: tuple[ModelConfig, ...] = Field(min_length=1)
    #: Limits of a workflow, unless it has others.
    budget: WorkflowBudget = WorkflowBudget()
    #: True if equal requests share a reply, in flight and for a week after.
    cache: bool = False
    #: Maximum cost of one run of one caller, in the currency of the prices.
    ceiling: float | None = Field(default=None, gt=0)
    #: Requests of this service in flight to each model; `max_waiting` more wait, then workflows
    #: fail. Workflows take turns.
    max_running: int = Field(default=64, ge=1)
    max_waiting: int = Field(default=4096, ge=0)

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        names = [model.name for model in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two models are called {twice[0]!r}")
        return self
