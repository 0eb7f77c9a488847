"""The chain of providers: which models are asked, in which order, and within which limits."""

from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from assay_shared.settings.run_file import Config

Effort = Literal["low", "medium", "high"]


Kappa = Annotated[float, Field(ge=-1, le=1)]


class Requirement(Config):
    """A calibration that was good enough. `domains` holds minima other than `minimum_kappa`."""

    file: Path
    minimum_kappa: Kappa
    domains: dict[str, Kappa] = Field(default={})
    max_age_days: float | None = Field(default=None, gt=0)


class Price(Config):
    """Of a million tokens, in the one currency of all prices."""

    input_per_million: Decimal = Field(default=Decimal(0), ge=0)
    output_per_million: Decimal = Field(default=Decimal(0), ge=0)

    @cached_property
    def is_free(self) -> bool:
        return not (self.input_per_million or self.output_per_million)


class ProviderLimits(Config):
    """What one provider allows to all replicas together; null is without limit."""

    concurrency: int | None = Field(default=None, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)
    #: Of prompts and answers together.
    tokens_per_minute: int | None = Field(default=None, ge=1)


class OpenAIProviderConfig(Config):
    """A model behind an OpenAI-compatible chat endpoint. Its key is never here."""

    kind: Literal["openai"] = "openai"
    name: str
    base_url: str
    model: str
    #: Other names that the endpoint may give the model in its replies. A reply of any other model
    #: is refused; a version or a date after `model`, or its owner before it, makes no other one.
    served_as: tuple[str, ...] = ()
    #: Of the weights, where the endpoint does not change its model's name with them: part of what
    #: the cache remembers a reply by.
    revision: str = ""
    #: Name of the environment variable that holds the key, or a mounted file; none without one.
    api_key_env: str | None = None
    api_key_file: Path | None = None
    #: Ask for the reason before the verdict: for a model that does not reason by itself.
    reason_first: bool = False
    #: Whether the endpoint holds a reply to a JSON schema (`response_format`).
    structured: bool = False
    temperature: float = Field(default=0.0, ge=0, le=2)
    seed: int = 1
    max_tokens: int = Field(default=512, gt=0)
    #: Up to which an empty or truncated reply raises `max_tokens`.
    max_tokens_limit: int = Field(default=8192, gt=0)
    reasoning_effort: Effort | None = None
    #: Of one request.
    timeout_s: float = Field(default=60.0, gt=0)
    #: Requests for one reply that can be read.
    attempts: int = Field(default=4, ge=1, le=20)
    #: Failures in a row after which the provider is left alone, and for how long.
    open_after: int = Field(default=8, ge=1)
    cooldown_s: float = Field(default=30.0, gt=0)
    limits: ProviderLimits = ProviderLimits(concurrency=64)
    price: Price = Price()
    #: A calibration that has to have been good enough, or the provider is passed over.
    requirement: Requirement | None = None
    #: Fields of the endpoint's own, sent with each request.
    extra_body: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.api_key_env is not None and self.api_key_file is not None:
            raise ValueError("api_key_env or api_key_file, not both")
        return self


class ReferenceProviderConfig(Config):
    """No model: compares the answer with the reference after normalising both."""

    kind: Literal["reference"] = "reference"
    name: str = "reference"


ProviderConfig = Annotated[
    OpenAIProviderConfig | ReferenceProviderConfig, Field(discriminator="kind")
]


Check = Literal["exact", "number", "choice", "symbolic"]


class Voting(Config):
    """More replies where the first is in doubt: UNSURE, or less certain than `below`.

    `self`: of the same model, otherwise sampled. `panel`: one of each other provider.
    """

    votes: int = Field(default=4, ge=1, le=16)
    by: Literal["self", "panel"] = "self"
    below: float = Field(default=0.7, ge=0, le=1)


class JudgeConfig(Config):
    """The providers, first choice first, and what surrounds them."""

    chain: tuple[ProviderConfig, ...] = Field(default=(ReferenceProviderConfig(),), min_length=1)
    #: Checks without a model that may decide before one is asked, for binary judgements.
    verify: tuple[Check, ...] = ()
    #: Folder with prompts of the operator's: FORM.NAME.txt.
    templates: Path | None = None
    voting: Voting | None = None
    #: The most that one run of one caller may cost, in the currency of the prices.
    ceiling: float | None = Field(default=None, gt=0)
    #: For a whole group, with all its retries and providers.
    deadline_s: float = Field(default=180.0, gt=0)

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        names = [provider.name for provider in self.chain]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two providers are called {twice[0]!r}")
        return self
