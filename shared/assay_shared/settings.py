"""Where things run: addresses, secrets and limits, read from `ASSAY_*` environment variables.

What runs is in run files (`config.py`). Nothing here is read at import.
"""

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from assay_shared.errors import ConfigError


class ServiceSettings(BaseSettings):
    """What every service and client reads. Subclasses add a service's own variables."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    #: Bearer token that services ask for and clients send; without one, no check is made.
    token: SecretStr | None = None
    #: More tokens that services accept, each with the name of a client: {"alice": "..."}. Where
    #: many wait, clients take turns.
    client_tokens: dict[str, SecretStr] = {}
    inference_url: str = "http://127.0.0.1:8001"
    sandbox_url: str = "http://127.0.0.1:8002"
    judge_url: str = "http://127.0.0.1:8003"
    reward_url: str = "http://127.0.0.1:8004"
    trainer_url: str = "http://127.0.0.1:8005"
    #: Broker and result store: redis://host:port/db or unix:///path/to/socket.
    redis_url: str = "redis://127.0.0.1:6379/0"
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
    #: Largest request body a service reads.
    body_limit_bytes: int = Field(default=32 * 2**20, gt=0)
    #: Time a stopping service gives to requests in hand.
    shutdown_grace_s: float = Field(default=20.0, gt=0)

    @property
    def accepted_tokens(self) -> dict[str, str]:
        """Tokens by the name of their client; none where no check is made."""
        own = {} if self.token is None else {"": self.token}
        return {
            name: token.get_secret_value() for name, token in (own | self.client_tokens).items()
        }


AnySettings = TypeVar("AnySettings", bound=ServiceSettings)


def read_settings(cls: type[AnySettings]) -> AnySettings:
    """Settings from the environment.

    Raises:
        ConfigError: a variable has a value that cannot be used; names the variable.
    """
    try:
        return cls()
    except ValidationError as error:
        first = error.errors()[0]
        prefix = str(cls.model_config.get("env_prefix", ""))
        name = (prefix + "_".join(str(part) for part in first["loc"])).upper()
        raise ConfigError(first["msg"], field=name) from None
