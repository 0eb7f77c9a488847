"""Types of client keys: the closed list of scopes, tokens, rate limits and priorities."""

import re
from collections.abc import Mapping
from enum import StrEnum

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from assay_shared.types import Priority

_CLIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")


class Scope(StrEnum):
    """Permission of a key; its prefix names the service."""

    INFERENCE_GENERATE = "inference:generate"
    INFERENCE_READ = "inference:read"
    INFERENCE_PUBLISH = "inference:publish"
    INFERENCE_CONTROL = "inference:control"
    SANDBOX_RUN = "sandbox:run"
    SANDBOX_SESSIONS = "sandbox:sessions"
    SANDBOX_READ = "sandbox:read"
    JUDGE_JUDGE = "judge:judge"
    JUDGE_READ = "judge:read"
    REWARD_SCORE = "reward:score"
    REWARD_STEP = "reward:step"
    REWARD_READ = "reward:read"
    TRAINER_READ = "trainer:read"
    TRAINER_CONTROL = "trainer:control"


class ClientKey(BaseModel):
    """A client's token, its scopes (all if not given), its rate limit, expiry and priorities.

    A plain string is read as the token.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    token: SecretStr
    scopes: frozenset[Scope] | None = None
    #: Rate limit; a sixth of it may come in a burst.
    requests_per_minute: int | None = Field(default=None, gt=0)
    #: The key is refused from this time on; needs a zone: 2026-12-31T00:00:00Z.
    expires_at: AwareDatetime | None = None
    #: Priorities allowed for the key's generations; all if not given.
    priorities: frozenset[Priority] | None = None

    @model_validator(mode="before")
    @classmethod
    def _token_alone(cls, value: object) -> object:
        return {"token": value} if isinstance(value, str | SecretStr) else value

    @field_validator("token")
    @classmethod
    def _can_be_sent(cls, token: SecretStr) -> SecretStr:
        return check_token(token)


def check_client_names(keys: Mapping[str, ClientKey]) -> None:
    """Raise ValueError for an invalid client name, or if two clients have the same token."""
    for name in keys:
        if not _CLIENT_NAME.fullmatch(name) or name == "mesh":
            raise ValueError(f"{name!r} is not a valid client name")
    if len({key.token.get_secret_value() for key in keys.values()}) < len(keys):
        raise ValueError("two clients have the same token")


def check_token(token: SecretStr) -> SecretStr:
    """Return the token; raise ValueError if a header cannot carry it."""
    text = token.get_secret_value()
    if not text or not all("!" <= sign <= "~" for sign in text):
        raise ValueError("a token is one or more visible ASCII characters, without spaces")
    return token
