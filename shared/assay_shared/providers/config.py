"""Configuration of a model at an OpenAI-compatible endpoint: address, sampling, limits, price."""

from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from assay_shared.providers.addresses import checked_address, checked_variable
from assay_shared.settings.run_file import Config

#: Fields of a request that other settings decide, or whose reply could not be read.
_OWN_FIELDS = frozenset(
    {
        "model",
        "messages",
        "temperature",
        "max_tokens",
        "seed",
        "reasoning_effort",
        "response_format",
        "stop",
        "stream",
        "stream_options",
        "n",
    }
)
Effort = Literal["low", "medium", "high"]


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


class ModelConfig(Config):
    """A model behind an OpenAI-compatible chat endpoint. Its API key is never stored here."""

    name: str
    base_url: Annotated[str, AfterValidator(checked_address)]
    model: str
    #: Other names that the endpoint may give the model in its replies. A reply of any other model
    #: is refused. `model` with a version or a date after it, or its owner before it, is accepted.
    served_as: tuple[str, ...] = ()
    #: Revision of the weights, for an endpoint that does not change the model's name when it
    #: changes the weights. It is part of the cache key.
    revision: str = ""
    #: Name of the environment variable with the key, or a mounted file; without either, no key.
    api_key_env: Annotated[str, AfterValidator(checked_variable)] | None = None
    api_key_file: Path | None = None
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
    #: Fields specific to the endpoint, sent with each request.
    extra_body: dict[str, Any] = Field(default={})

    @field_validator("extra_body")
    @classmethod
    def _adds_only(cls, extra: dict[str, Any]) -> dict[str, Any]:
        own = sorted(extra.keys() & _OWN_FIELDS)
        if own:
            raise ValueError(
                f"{own[0]} is set by Assay itself; extra_body is for further fields of the request"
            )
        return extra

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.api_key_env is not None and self.api_key_file is not None:
            raise ValueError("api_key_env or api_key_file, not both")
        return self
