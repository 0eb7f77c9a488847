"""Settings of the sandbox, read from the environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from assay_shared.settings.environment import ServiceSettings

#: From least to most.
Isolation = Literal["fallback", "pooled", "fresh", "single_use"]

#: A sandbox has 4096 users; each slot of four profiles and of 256 sessions takes two.
MAX_SLOTS = 384
#: Slots for each computing program, if sandbox_max_slots is not set.
_SLEEPERS = 8


class SandboxSettings(ServiceSettings):
    """Settings `ASSAY_SANDBOX_*`, in addition to the settings of all services."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    #: Isolation level of the slots; see docs/sandbox_isolation.md.
    sandbox_isolation: Isolation = "pooled"
    #: Lowest level to serve with if the host does not grant `sandbox_isolation`; below it, refuse
    #: to start.
    sandbox_minimum_isolation: Isolation = "pooled"
    #: Programs computing at once.
    sandbox_slots: int = Field(
        default_factory=lambda: (os.cpu_count() or 1) + 1, gt=0, le=MAX_SLOTS
    )
    #: Programs at once, sleeping ones included; eight times `sandbox_slots` if not set.
    sandbox_max_slots: int | None = Field(default=None, gt=0, le=MAX_SLOTS)
    #: Requests that may wait, and for how long; a request beyond either limit gets 503.
    sandbox_max_waiting: int = Field(default=2048, ge=0)
    sandbox_max_wait_s: float = Field(default=120.0, gt=0)
    #: Interpreter for Python programs; if not set, the sandbox finds one.
    sandbox_python: Path | None = None
    #: Folder in which slots are built; if not set, the system's temporary folder.
    sandbox_work_folder: Path | None = None
    #: Most bytes a program may write to each of its in-memory folders, in slots with namespaces.
    sandbox_writable_bytes: int = Field(default=64 * 2**20, gt=0)
    #: Allow a program TCP and UDP connections to itself, in an otherwise empty network.
    sandbox_loopback: bool = False
    #: If the sandbox is root, its slots take users from this number on, two each, or from the next
    #: free range of 4096.
    sandbox_first_uid: int = Field(default=20000, gt=0)
    #: Folder with the packages that programs may import; if not set, the server's own packages.
    sandbox_packages: Path | None = None
    #: Folder for files that compilers need once (precompiled headers); if not set, the user's
    #: cache.
    sandbox_toolchain_folder: Path | None = None
    #: Toolchains in addition to the system's, each with a bin folder, separated by colons.
    sandbox_toolchains: str = ""
    #: Folder with a JSON Lines file for each data set that SandboxFusion's routes serve.
    sandbox_datasets: Path | None = None
    #: Bytes of compiled code kept for repeated programs.
    sandbox_compile_cache_bytes: int = Field(default=256 * 2**20, ge=0)

    #: Sessions that may live at once, in all and of one client; each has its own slot.
    sandbox_max_sessions: int = Field(default=64, ge=0, le=256)
    sandbox_max_sessions_per_client: int = Field(default=16, ge=0)
    #: A session ends after this time without use, or after this life in all.
    sandbox_session_idle_s: float = Field(default=600.0, gt=0)
    sandbox_session_life_s: float = Field(default=7200.0, gt=0)
    #: Largest request, in place of ASSAY_BODY_LIMIT_BYTES: inputs and files are part of it.
    sandbox_body_limit_bytes: int = Field(default=128 * 2**20, gt=0)

    @property
    def max_slots(self) -> int:
        """Number of slots for programs at once: at least `sandbox_slots`."""
        wanted = self.sandbox_max_slots or min(_SLEEPERS * self.sandbox_slots, MAX_SLOTS)
        return max(wanted, self.sandbox_slots)

    @property
    def toolchains(self) -> tuple[str, ...]:
        return tuple(folder for folder in self.sandbox_toolchains.split(":") if folder)
