"""The chain of providers: which models are asked, in which order."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assay_shared.config import Config


class OpenAIProviderConfig(Config):
    """A model behind an OpenAI-compatible chat endpoint. The key is in the environment only."""

    kind: Literal["openai"] = "openai"
    name: str
    base_url: str
    model: str
    #: Name of the environment variable that holds the key; none for endpoints without one.
    api_key_env: str | None = None
    temperature: float = Field(default=0.0, ge=0, le=2)
    max_tokens: int = Field(default=512, gt=0)
    timeout_s: float = Field(default=60.0, gt=0)
    attempts: int = Field(default=3, ge=1)
    max_concurrent: int = Field(default=32, ge=1)


class ReferenceProviderConfig(Config):
    """No model: compares the answer with the reference after normalising both."""

    kind: Literal["reference"] = "reference"
    name: str = "reference"


ProviderConfig = Annotated[
    OpenAIProviderConfig | ReferenceProviderConfig, Field(discriminator="kind")
]


class JudgeConfig(Config):
    """The providers, first choice first."""

    chain: tuple[ProviderConfig, ...] = Field(default=(ReferenceProviderConfig(),), min_length=1)

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        names = [provider.name for provider in self.chain]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two providers are called {twice[0]!r}")
        return self
