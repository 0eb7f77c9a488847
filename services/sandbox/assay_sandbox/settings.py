"""What the sandbox reads from the environment."""

import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from assay_shared.settings import ServiceSettings


class SandboxSettings(ServiceSettings):
    """`ASSAY_SANDBOX_*`, beside what all services read."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    #: Programs that run at once.
    sandbox_slots: int = Field(default_factory=lambda: (os.cpu_count() or 1) + 1, gt=0, le=256)
    #: Requests that may wait; one more gets 429.
    sandbox_max_waiting: int = Field(default=2048, ge=0)
    #: Interpreter for Python programs; found by itself where it is not set.
    sandbox_python: Path | None = None
    #: Where programs get their temporary folders; the system's own where it is not set.
    sandbox_work_folder: Path | None = None
    #: Started as root, slot i runs its programs as user `first_uid + i`, or of the next free 256.
    sandbox_first_uid: int = Field(default=64000, gt=0)
