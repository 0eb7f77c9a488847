"""The judge's YAML configuration: the chain of providers, their order, limits and prices."""

from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from assay_shared.settings.run_file import Config

Effort = Literal["low", "medium", "high"]


Kappa = Annotated[float, Field(ge=-1, le=1)]


class Requirement(Config):
    """A calibration file and the minimum kappa a judge must have reached in it.

    `domains` holds minima for domains with a minimum other than `minimum_kappa`.
    """

    file: Path
    minimum_kappa: Kappa
    domains: dict[str, Kappa] = Field(default={})
    max_age_days: float | None = Field(default=None, gt=0)


class Price(Config):
    """Prices of a million tokens. All prices share a currency."""

    input_per_million: Decimal = Field(default=Decimal(0), ge=0)
    output_per_million: Decimal = Field(default=Decimal(0), ge=0)

    @cached_property
    def is_free(self) -> bool:
        return not (self.input_per_million or self.output_per_million)


class ProviderLimits(Config):
    """Limits of a provider over all replicas together; null means no limit."""

    concurrency: int | None = Field(default=None, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)
    #: Tokens of prompts and answers together.
    tokens_per_minute: int | None = Field(default=None, ge=1)


class OpenAIProviderConfig(Config):
    """A model behind an OpenAI-compatible chat endpoint. Its API key is never stored here."""

    kind: Literal["openai"] = "openai"
    name: str
    base_url: str
    model: str
    #: Other names that the endpoint may give the model in its replies. A reply of any other model
    #: is refused. `model` with a version or a date after it, or its owner before it, is accepted.
    served_as: tuple[str, ...] = ()
    #: Revision of the weights, for an endpoint that does not change the model's name when it
    #: changes the weights. It is part of the cache key.
    revision: str = ""
    #: Name of the environment variable with the key, or a mounted file; without either, no key.
    api_key_env: str | None = None
    api_key_file: Path | None = None
    #: Ask for the reason before the verdict, for a model that does not reason unprompted.
    reason_first: bool = False
    #: True if the endpoint enforces a JSON schema on replies (`response_format`).
    structured: bool = False
    temperature: float = Field(default=0.0, ge=0, le=2)
    seed: int = 1
    max_tokens: int = Field(default=512, gt=0)
    #: An empty or truncated reply raises `max_tokens` of the next try, up to this limit.
    max_tokens_limit: int = Field(default=8192, gt=0)
    reasoning_effort: Effort | None = None
    #: Time limit of one request.
    timeout_s: float = Field(default=60.0, gt=0)
    #: Maximum number of requests for one readable reply.
    attempts: int = Field(default=4, ge=1, le=20)
    #: After this many failures in a row the provider is not asked for `cooldown_s`.
    open_after: int = Field(default=8, ge=1)
    cooldown_s: float = Field(default=30.0, gt=0)
    limits: ProviderLimits = ProviderLimits(concurrency=64)
    price: Price = Price()
    #: A minimum quality measured by calibration; a provider below it is passed over.
    requirement: Requirement | None = None
    #: Fields specific to the endpoint, sent with each request.
    extra_body: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.api_key_env is not None and self.api_key_file is not None:
            raise ValueError("api_key_env or api_key_file, not both")
        return self


class ReferenceProviderConfig(Config):
    """A provider without a model: compares the answer with the reference, both normalised."""

    kind: Literal["reference"] = "reference"
    name: str = "reference"


ProviderConfig = Annotated[
    OpenAIProviderConfig | ReferenceProviderConfig, Field(discriminator="kind")
]


Check = Literal["exact", "number", "choice", "symbolic"]


class Voting(Config):
    """Further replies if the first is in doubt: UNSURE, or with a confidence lower than `below`.

    `self` asks the same model again with other sampling; `panel` asks each other provider once.
    """

    votes: int = Field(default=4, ge=1, le=16)
    by: Literal["self", "panel"] = "self"
    below: float = Field(default=0.7, ge=0, le=1)


class JudgeConfig(Config):
    """The providers, first choice first, with checks, templates, voting and limits."""

    chain: tuple[ProviderConfig, ...] = Field(default=(ReferenceProviderConfig(),), min_length=1)
    #: Checks without a model that may decide before one is asked, for binary judgements.
    verify: tuple[Check, ...] = ()
    #: Folder with the operator's own prompts: FORM.NAME.txt.
    templates: Path | None = None
    voting: Voting | None = None
    #: Maximum cost of one run of one caller, in the currency of the prices.
    ceiling: float | None = Field(default=None, gt=0)
    #: Time limit of a whole group, with all its retries and providers.
    deadline_s: float = Field(default=180.0, gt=0)

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        names = [provider.name for provider in self.chain]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two providers are called {twice[0]!r}")
        return self
