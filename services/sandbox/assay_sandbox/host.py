"""What this host has for slots: which interpreter, and which users they may have."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import ConfigError

#: No site packages, no user site, no current folder on the path, no caches written, and UTF-8 in
#: any locale. (-I would also ignore the hash seed, which makes runs repeatable.)
PYTHON_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
_PROBE = "import json, random, collections, sys; print(sys.base_prefix)"
_PROBE_TIMEOUT_S = 20
#: Users of one sandbox, two for each slot, and how many sandboxes may share a machine.
_RANGE = 512
_MAX_SANDBOXES = 32


@dataclass(frozen=True)
class Host:
    """The interpreter that slots are forks of, and their first user (None: all have the server's).

    `claim` keeps other sandboxes on this machine from using the same users.
    """

    python: str
    readable: tuple[str, ...]
    first_uid: int | None
    claim: socket.socket | None = field(default=None, compare=False)

    def close(self) -> None:
        """Give the users back."""
        if self.claim is not None:
            self.claim.close()


def examine(settings: SandboxSettings, *, has_namespaces: bool) -> Host:
    """Find an interpreter, and users where the server runs as root.

    Without namespaces, the slots' users themselves must be able to reach the interpreter.

    Raises:
        ConfigError: no interpreter works.
    """
    first_uid, claim = _claim_users(settings) if os.geteuid() == 0 else (None, None)
    candidates = _candidates(settings)
    for python in candidates:
        prefix = _prefix(python, None if has_namespaces else first_uid)
        if prefix is not None:
            return Host(python, (prefix,), first_uid, claim)
    if claim is not None:
        claim.close()
    raise ConfigError(
        f"no interpreter for Python programs works: {', '.join(candidates)}",
        field="ASSAY_SANDBOX_PYTHON",
    )


def _claim_users(settings: SandboxSettings) -> tuple[int, socket.socket]:
    """The first range of users that no other sandbox here has.

    A name in the kernel's socket table is the claim: it goes with the process, however it ends.
    """
    for number in range(_MAX_SANDBOXES):
        first_uid = settings.sandbox_first_uid + number * _RANGE
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0assay-sandbox-{first_uid}")
        except OSError:
            claim.close()
        else:
            return first_uid, claim
    raise ConfigError(f"{_MAX_SANDBOXES} sandboxes run on this machine already")


def _candidates(settings: SandboxSettings) -> list[str]:
    if settings.sandbox_python is not None:
        return [str(settings.sandbox_python)]
    # The one behind a virtual environment: programs get none of the environment's packages.
    own = os.path.realpath(sys.executable)
    return [own, *(p for p in ("/usr/local/bin/python3", "/usr/bin/python3") if Path(p).exists())]


def _prefix(python: str, uid: int | None) -> str | None:
    """Where it has its library; None if it cannot import from it as that user."""
    become = "" if uid is None else f"import os; os.setgroups([]); os.setuid({uid}); "
    try:
        shown = subprocess.run(
            [python, *PYTHON_FLAGS, "-c", become + _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip()
