"""What a key may do: the closed list of scopes, and the keys of clients."""

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
    """What a key may be allowed; each belongs to the service that it names."""

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
    """One client's token, what it may do (all, where no scopes are given), and how often.

    Where it is a string alone, that is the token.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    token: SecretStr
    scopes: frozenset[Scope] | None = None
    #: A sixth of it may come at once.
    requests_per_minute: int | None = Field(default=None, gt=0)
    #: With its zone: 2026-12-31T00:00:00Z. Then the key is refused.
    expires_at: AwareDatetime | None = None
    #: Classes that its generations may name; all, where none are given.
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
    """Raises ValueError for names that no client may have, and for a token of two clients."""
    for name in keys:
        if not _CLIENT_NAME.fullmatch(name) or name == "mesh":
            raise ValueError(f"{name!r} is no name for a client")
    if len({key.token.get_secret_value() for key in keys.values()}) < len(keys):
        raise ValueError("two clients have the same token")


def check_token(token: SecretStr) -> SecretStr:
    """Raises ValueError for a token that no header can carry."""
    text = token.get_secret_value()
    if not text or not all("!" <= sign <= "~" for sign in text):
        raise ValueError("a token is one or more visible ASCII characters, without spaces")
    return token
