"""What the sandbox reads from the environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from assay_shared.settings.environment import ServiceSettings

#: From least to most.
Isolation = Literal["fallback", "pooled", "fresh", "single_use"]

#: Slots of four profiles and of 256 sessions have two users each, of 4096.
MAX_SLOTS = 384
#: Slots for each program that computes, if no number is set.
_SLEEPERS = 8


class SandboxSettings(ServiceSettings):
    """`ASSAY_SANDBOX_*`, beside what all services read."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    #: What holds programs apart; see docs/sandbox_isolation.md.
    sandbox_isolation: Isolation = "pooled"
    #: Serve with less than `sandbox_isolation` only down to this; else refuse to start.
    sandbox_minimum_isolation: Isolation = "pooled"
    #: Programs that compute at once.
    sandbox_slots: int = Field(
        default_factory=lambda: (os.cpu_count() or 1) + 1, gt=0, le=MAX_SLOTS
    )
    #: Programs that are there at once, with those that sleep; eight times as many if not set.
    sandbox_max_slots: int | None = Field(default=None, gt=0, le=MAX_SLOTS)
    #: Requests that may wait, and for how long; beyond it, one gets 503.
    sandbox_max_waiting: int = Field(default=2048, ge=0)
    sandbox_max_wait_s: float = Field(default=120.0, gt=0)
    #: Interpreter for Python programs; found by itself where it is not set.
    sandbox_python: Path | None = None
    #: Where slots are put together; the system's temporary folder where it is not set.
    sandbox_work_folder: Path | None = None
    #: What a program may write to each of its folders in memory, where slots have namespaces.
    sandbox_writable_bytes: int = Field(default=64 * 2**20, gt=0)
    #: Whether a program may speak TCP and UDP to itself, in a network that has nothing else.
    sandbox_loopback: bool = False
    #: Started as root, slots take users from here on, two each, or from the next free 4096.
    sandbox_first_uid: int = Field(default=20000, gt=0)
    #: Folder with the packages that programs may import; the server's own where it is not set.
    sandbox_packages: Path | None = None
    #: Folder for what compilers need once (precompiled headers); the user's cache if not set.
    sandbox_toolchain_folder: Path | None = None
    #: Toolchains beside the system's, each with a bin folder, separated by colons.
    sandbox_toolchains: str = ""
    #: Folder with a JSON Lines file for each data set that SandboxFusion's routes serve.
    sandbox_datasets: Path | None = None
    #: How much compiled code is kept for programs that come again.
    sandbox_compile_cache_bytes: int = Field(default=256 * 2**20, ge=0)

    #: Sessions that may live at once, in all and of one client; each has a slot of its own.
    sandbox_max_sessions: int = Field(default=64, ge=0, le=256)
    sandbox_max_sessions_per_client: int = Field(default=16, ge=0)
    #: A session ends when it was not used for so long, or has lived for so long.
    sandbox_session_idle_s: float = Field(default=600.0, gt=0)
    sandbox_session_life_s: float = Field(default=7200.0, gt=0)
    #: Largest request, in place of ASSAY_BODY_LIMIT_BYTES: inputs and files are part of it.
    sandbox_body_limit_bytes: int = Field(default=128 * 2**20, gt=0)

    @property
    def max_slots(self) -> int:
        """At least as many as compute at once."""
        wanted = self.sandbox_max_slots or min(_SLEEPERS * self.sandbox_slots, MAX_SLOTS)
        return max(wanted, self.sandbox_slots)

    @property
    def toolchains(self) -> tuple[str, ...]:
        return tuple(folder for folder in self.sandbox_toolchains.split(":") if folder)
