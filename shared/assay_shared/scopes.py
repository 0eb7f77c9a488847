"""What a key may do: the closed list of scopes, and the keys of clients."""

from enum import StrEnum

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)


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

    @model_validator(mode="before")
    @classmethod
    def _token_alone(cls, value: object) -> object:
        return {"token": value} if isinstance(value, str | SecretStr) else value

    @field_validator("token")
    @classmethod
    def _can_be_sent(cls, token: SecretStr) -> SecretStr:
        return check_token(token)


def check_token(token: SecretStr) -> SecretStr:
    """Raises ValueError for a token that no header can carry."""
    text = token.get_secret_value()
    if not text or not all("!" <= sign <= "~" for sign in text):
        raise ValueError("a token is one or more visible ASCII characters, without spaces")
    return token
