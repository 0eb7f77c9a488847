"""Settings of the deployment: addresses, secrets and limits from `ASSAY_*` environment variables.

Settings of a run are in run files (`run_file.py`). No variable is read at import.
"""

import re
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from assay_shared.errors import ConfigError
from assay_shared.settings.api_keys import ClientKey, check_client_names, check_token
from assay_shared.settings.redis_address import redis_address
from assay_shared.settings.secret_files import SecretFiles

#: Client name of a caller with the service's own token.
OWN = ""


class ServiceSettings(BaseSettings):
    """Settings of every service and client. Subclasses add a service's own variables."""

    model_config = SettingsConfigDict(
        env_prefix="ASSAY_",
        env_file=None,
        env_ignore_empty=True,
        extra="ignore",
        hide_input_in_errors=True,
    )

    #: Bearer token required by services and sent by clients; without a token, no check is made.
    token: SecretStr | None = None
    #: Token of a single service and its callers, instead of `token`.
    inference_token: SecretStr | None = None
    sandbox_token: SecretStr | None = None
    judge_token: SecretStr | None = None
    reward_token: SecretStr | None = None
    trainer_token: SecretStr | None = None
    #: More tokens accepted by services, each with the name of a client: {"alice": "..."}, or
    #: {"alice": {"token": "...", "scopes": ["sandbox:run"], "requests_per_minute": 600}}.
    #: If many requests wait, clients take turns.
    client_tokens: dict[str, ClientKey] = {}
    #: File with the client tokens; services read it again when it changes.
    client_tokens_file: Path | None = None
    #: Host names of the services, separated by commas; addresses and localhost are always allowed.
    #: If this is empty and a token is required, any name is allowed.
    allowed_hosts: str = ""
    inference_url: str = "http://127.0.0.1:8001"
    sandbox_url: str = "http://127.0.0.1:8002"
    judge_url: str = "http://127.0.0.1:8003"
    reward_url: str = "http://127.0.0.1:8004"
    trainer_url: str = "http://127.0.0.1:8005"
    #: User and password of Redis, of any characters; `redis_url` includes them.
    redis_username: str | None = None
    redis_password: SecretStr | None = None
    #: Authorities that vouch for the certificate of a rediss:// server; else the system's.
    redis_ca_file: Path | None = None
    #: Broker and result store: redis://host:port/db, rediss://... or unix:///path/to/socket.
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", repr=False, validate_default=True)
    #: Folder with a folder per run.
    runs: Path = Path("runs")
    #: Way of a trainer's weights to inference: a shared folder, an upload, or memory to memory.
    weight_transfer: Literal["folder", "upload", "direct"] = "folder"
    #: Folder with external datasets (HumanEval.jsonl.gz, ...).
    data: Path | None = None
    #: Address of this host for an engine's direct transfers.
    weight_transfer_host: str = "127.0.0.1"
    #: Time limit of a direct transfer, without the wait for sequences in flight.
    weight_transfer_timeout_s: float = Field(default=60.0, gt=0)
    #: Size of a bucket of tensors sent together; trainer and engine keep two buckets.
    weight_transfer_bucket_bytes: int = Field(default=2**30, gt=0)
    #: OTLP over HTTP: http://collector:4318. Without an endpoint, nothing is traced.
    otlp_endpoint: str = ""
    #: Share of traces kept, of all traces begun by this process.
    trace_share: float = Field(default=1.0, ge=0, le=1)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    #: File for the audit log, in addition to standard error; several services may share a file.
    audit_file: Path | None = None
    #: An audit file of this size is rotated; `audit_files_kept` rotated files are kept.
    audit_file_max_bytes: int = Field(default=10 * 2**20, ge=4096)
    audit_files_kept: int = Field(default=9, ge=1)
    #: Limit on the body of a request.
    body_limit_bytes: int = Field(default=32 * 2**20, gt=0)
    #: An open connection without a request is closed after this time.
    http_idle_s: float = Field(default=30.0, ge=1)
    #: Time for a request's head, from its first byte to its end.
    http_head_s: float = Field(default=10.0, ge=1)
    #: Time without receiving a byte of a request's body, or the client taking a byte of an answer.
    http_body_s: float = Field(default=30.0, ge=1)
    #: Inference and trainer refuse to start where no GPU is visible; set in images for GPUs.
    needs_gpu: bool = False
    #: Time a stopping service gives to requests in flight.
    shutdown_grace_s: float = Field(default=20.0, gt=0)

    @field_validator(
        "token", "inference_token", "sandbox_token", "judge_token", "reward_token", "trainer_token"
    )
    @classmethod
    def _can_be_sent(cls, token: SecretStr | None) -> SecretStr | None:
        return None if token is None else check_token(token)

    @field_validator("redis_url")
    @classmethod
    def _with_user_and_authorities(cls, url: str, info: ValidationInfo) -> str:
        """Return the address with the fields above it, as clients of Redis take it."""
        password: SecretStr | None = info.data.get("redis_password")
        secret = None if password is None else password.get_secret_value()
        known = info.data.get("redis_username"), secret, info.data.get("redis_ca_file")
        return redis_address(url, *known)

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
        """Return the token of `service` and its callers, or None if it makes no check."""
        token: SecretStr | None = getattr(self, f"{service}_token", None) or self.token
        return None if token is None else token.get_secret_value()

    def accepted_keys(self, service: str) -> dict[str, ClientKey]:
        """Return the keys accepted by `service`, by client; empty if it makes no check.

        Raises:
            ConfigError: a client has the service's own token.
        """
        token = self.token_of(service)
        if token is None:
            return dict(self.client_tokens)
        for name, key in self.client_tokens.items():
            if key.token.get_secret_value() == token:
                raise ConfigError(
                    f"the token of {name} is also the service's own token",
                    field="ASSAY_CLIENT_TOKENS",
                )
        return {OWN: ClientKey(token=SecretStr(token))} | self.client_tokens


AnySettings = TypeVar("AnySettings", bound=ServiceSettings)


def read_settings(cls: type[AnySettings]) -> AnySettings:
    """Return the settings in the environment.

    Raises:
        ConfigError: the value of a variable cannot be used; names the variable.
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
        # The message names only the field, because the value may hold a token.
        named = re.search(r'field "(\w+)"', str(error))
        raise ConfigError(
            "the value is not JSON", field=(prefix + named.group(1)).upper() if named else None
        ) from None
