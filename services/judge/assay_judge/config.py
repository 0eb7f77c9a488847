"""The judge's YAML configuration: the chain of providers, their order, limits and prices."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from assay_shared.providers.config import ModelConfig
from assay_shared.settings.run_file import Config

Kappa = Annotated[float, Field(ge=-1, le=1)]


class Requirement(Config):
    """A calibration file and the minimum kappa a judge must have reached in it.

    `domains` holds minima for domains with a minimum other than `minimum_kappa`.
    """

    file: Path
    minimum_kappa: Kappa
    domains: dict[str, Kappa] = Field(default={})
    max_age_days: float | None = Field(default=None, gt=0)


class OpenAIProviderConfig(ModelConfig):
    """A judging model behind an OpenAI-compatible chat endpoint."""

    kind: Literal["openai"] = "openai"
    #: Ask for the reason before the verdict, for a model that does not reason unprompted.
    reason_first: bool = False
    #: True if the endpoint enforces a JSON schema on replies (`response_format`).
    structured: bool = False
    temperature: float = Field(default=0.0, ge=0, le=2)
    seed: int = 1
    max_tokens: int = Field(default=512, gt=0)
    #: A minimum quality measured by calibration; a provider below it is passed over.
    requirement: Requirement | None = None


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


#: Settings of a provider that cannot change a verdict. The same model may have several addresses.
_NOT_DECIDING = {
    *("name", "base_url", "api_key_env", "api_key_file", "requirement"),
    *("timeout_s", "open_after", "cooldown_s", "limits", "price"),
}


def deciding_settings(config: JudgeConfig, name: str) -> dict[str, JsonValue]:
    """Return the settings that decide the verdicts of a provider of the chain, without its prompt.

    A panel decides too: then the settings of the other providers are part of them.
    """
    all_settings = {one.name: _deciding(one) for one in config.chain}
    settings = all_settings.pop(name)
    if config.voting is not None:
        settings["voting"] = config.voting.model_dump(mode="json")
        if config.voting.by == "panel":
            settings["panel"] = {**all_settings}
    return settings


def _deciding(provider: ProviderConfig) -> dict[str, JsonValue]:
    settings: dict[str, JsonValue] = provider.model_dump(mode="json", exclude=_NOT_DECIDING)
    extra = settings.get("extra_body")
    if extra:  # an operator may have put a secret there
        text = json.dumps(extra, sort_keys=True)
        settings["extra_body"] = {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    return settings
