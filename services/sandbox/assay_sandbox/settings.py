"""What the sandbox reads from the environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from assay_shared.settings import ServiceSettings

#: From least to most.
Isolation = Literal["fallback", "pooled", "fresh", "single_use"]


class SandboxSettings(ServiceSettings):
    """`ASSAY_SANDBOX_*`, beside what all services read."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    #: What holds programs apart; see docs/sandbox.md.
    sandbox_isolation: Isolation = "pooled"
    #: Serve with less than `sandbox_isolation` only down to this; else refuse to start.
    sandbox_minimum_isolation: Isolation = "pooled"
    #: Programs that run at once.
    sandbox_slots: int = Field(default_factory=lambda: (os.cpu_count() or 1) + 1, gt=0, le=256)
    #: Requests that may wait; one more gets 429.
    sandbox_max_waiting: int = Field(default=2048, ge=0)
    #: Interpreter for Python programs; found by itself where it is not set.
    sandbox_python: Path | None = None
    #: Where slots are put together; the system's temporary folder where it is not set.
    sandbox_work_folder: Path | None = None
    #: What a program may write to each of its folders in memory, where slots have namespaces.
    sandbox_writable_bytes: int = Field(default=64 * 2**20, gt=0)
    #: Started as root, slots take users from here on, two each, or from the next free 512.
    sandbox_first_uid: int = Field(default=64000, gt=0)
