"""The judge's settings, read from environment variables."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from assay_shared.settings.environment import ServiceSettings


class JudgeSettings(ServiceSettings):
    """`ASSAY_JUDGE_*` variables, in addition to the settings of all services."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    #: YAML file with the chain of providers; without it, the reference provider alone.
    judge_config: Path | None = None
    #: `process`: limits, costs and cache are this process's own; `redis`: all replicas share them.
    judge_shared: Literal["process", "redis"] = "process"
    #: Groups judged at once; `judge_max_waiting` more wait, then 429.
    judge_max_running: int = Field(default=256, gt=0)
    judge_max_waiting: int = Field(default=1024, ge=0)
