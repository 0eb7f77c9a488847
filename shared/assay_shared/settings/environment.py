"""Where things run: addresses, secrets and limits, read from `ASSAY_*` environment variables.

What runs is in run files (`config.py`). Nothing here is read at import.
"""

import re
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from assay_shared.errors import ConfigError
from assay_shared.settings.api_keys import ClientKey, check_client_names, check_token
from assay_shared.settings.secret_files import SecretFiles

#: Who asks with the token of the service itself.
OWN = ""


class ServiceSettings(BaseSettings):
    """What every service and client reads. Subclasses add a service's own variables."""

    model_config = SettingsConfigDict(
        env_prefix="ASSAY_",
        env_file=None,
        env_ignore_empty=True,
        extra="ignore",
        hide_input_in_errors=True,
    )

    #: Bearer token that services ask for and clients send; without one, no check is made.
    token: SecretStr | None = None
    #: In its place, what one service asks for and those that call it send.
    inference_token: SecretStr | None = None
    sandbox_token: SecretStr | None = None
    judge_token: SecretStr | None = None
    reward_token: SecretStr | None = None
    trainer_token: SecretStr | None = None
    #: More tokens that services accept, each with the name of a client: {"alice": "..."}, or
    #: {"alice": {"token": "...", "scopes": ["sandbox:run"], "requests_per_minute": 600}}.
    #: Where many wait, clients take turns.
    client_tokens: dict[str, ClientKey] = {}
    #: The file that they were read from; it is read again when it changes.
    client_tokens_file: Path | None = None
    #: Names, divided by commas, under which services are asked, beside addresses and localhost.
    #: Where a token is asked for, any name will do unless some are given here.
    allowed_hosts: str = ""
    inference_url: str = "http://127.0.0.1:8001"
    sandbox_url: str = "http://127.0.0.1:8002"
    judge_url: str = "http://127.0.0.1:8003"
    reward_url: str = "http://127.0.0.1:8004"
    trainer_url: str = "http://127.0.0.1:8005"
    #: Broker and result store: redis://host:port/db or unix:///path/to/socket.
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", repr=False)
    #: Folder that holds one folder per run.
    runs: Path = Path("runs")
    #: How a trainer's weights reach inference: through a folder that both see, or uploaded.
    weight_transfer: Literal["folder", "upload", "direct"] = "folder"
    #: Folder with external datasets (HumanEval.jsonl.gz, ...).
    data: Path | None = None
    #: Address of this host at which an engine fetches weights directly.
    weight_transfer_host: str = "127.0.0.1"
    #: Time that one direct transfer may take, the wait for sequences in hand aside.
    weight_transfer_timeout_s: float = Field(default=60.0, gt=0)
    #: Tensors travel together in so many bytes; trainer and engine keep two of these.
    weight_transfer_bucket_bytes: int = Field(default=2**30, gt=0)
    #: OTLP over HTTP: http://collector:4318. Without one, nothing is traced.
    otlp_endpoint: str = ""
    #: Of all traces that begin here.
    trace_share: float = Field(default=1.0, ge=0, le=1)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    #: File for the audit log, beside standard error; services may share one.
    audit_file: Path | None = None
    #: A file that has grown to this is set aside, and so many of those are kept.
    audit_file_max_bytes: int = Field(default=10 * 2**20, ge=4096)
    audit_files_kept: int = Field(default=9, ge=1)
    #: Largest request body a service reads.
    body_limit_bytes: int = Field(default=32 * 2**20, gt=0)
    #: An open connection without a request is closed after this time.
    http_idle_s: float = Field(default=30.0, ge=1)
    #: Time for a request's head, from its first byte to its end.
    http_head_s: float = Field(default=10.0, ge=1)
    #: Time without a byte of a request's body, or without a byte of the answer being taken.
    http_body_s: float = Field(default=30.0, ge=1)
    #: Time a stopping service gives to requests in hand.
    shutdown_grace_s: float = Field(default=20.0, gt=0)

    @field_validator(
        "token", "inference_token", "sandbox_token", "judge_token", "reward_token", "trainer_token"
    )
    @classmethod
    def _can_be_sent(cls, token: SecretStr | None) -> SecretStr | None:
        return None if token is None else check_token(token)

    @field_validator("client_tokens")
    @classmethod
    def _can_be_told_apart(cls, keys: dict[str, ClientKey]) -> dict[str, ClientKey]:
        check_client_names(keys)
        return keys

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, SecretFiles(settings_cls)

    def token_of(self, service: str) -> str | None:
        """What `service` asks for, and those that call it send; None where no check is made."""
        token: SecretStr | None = getattr(self, f"{service}_token", None) or self.token
        return None if token is None else token.get_secret_value()

    def accepted_keys(self, service: str) -> dict[str, ClientKey]:
        """The keys that `service` accepts, by client; none where no check is made.

        Raises:
            ConfigError: a client has the service's own token.
        """
        token = self.token_of(service)
        if token is None:
            return dict(self.client_tokens)
        for name, key in self.client_tokens.items():
            if key.token.get_secret_value() == token:
                raise ConfigError(
                    f"the token of {name} is that of the service itself",
                    field="ASSAY_CLIENT_TOKENS",
                )
        return {OWN: ClientKey(token=SecretStr(token))} | self.client_tokens


AnySettings = TypeVar("AnySettings", bound=ServiceSettings)


def read_settings(cls: type[AnySettings]) -> AnySettings:
    """Settings from the environment.

    Raises:
        ConfigError: a variable has a value that cannot be used; names the variable.
    """
    prefix = str(cls.model_config.get("env_prefix", ""))
    try:
        return cls()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        variable, *inside = (str(part) for part in first["loc"])
        where = f"{'.'.join(inside)}: " if inside else ""
        message = where + first["msg"].removeprefix("Value error, ")
        raise ConfigError(message, field=(prefix + variable).upper()) from None
    except SettingsError as error:
        # It names the field alone: what is not JSON may hold a token.
        named = re.search(r'field "(\w+)"', str(error))
        raise ConfigError(
            "this is no JSON", field=(prefix + named.group(1)).upper() if named else None
        ) from None
