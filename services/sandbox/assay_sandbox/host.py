"""What this host lets the sandbox do: which interpreter, and whether each slot has its own user."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import ConfigError

#: What programs are held apart by: a process each, with limits. Not by namespaces.
ISOLATION = "process"
_PROBE = "import json, random, collections"
_PROBE_TIMEOUT_S = 20
#: Users of one sandbox, and how many sandboxes may share a machine.
_RANGE = 256
_MAX_SANDBOXES = 64


@dataclass(frozen=True)
class Host:
    """The interpreter for Python programs, and the first slot's user (None: the server's own).

    `claim` keeps other sandboxes on this machine from using the same users.
    """

    python: str
    first_uid: int | None
    claim: socket.socket | None = None


def examine(settings: SandboxSettings) -> Host:
    """Find an interpreter that the slots' users can run; else run programs as the server's user.

    Raises:
        ConfigError: no interpreter works at all.
    """
    candidates = _candidates(settings)
    if os.geteuid() == 0:
        for python in candidates:
            if _runs(python, settings.sandbox_first_uid):
                return Host(python, *_claim_users(settings))
    for python in candidates:
        if _runs(python, None):
            return Host(python, None)
    raise ConfigError(
        f"no interpreter for Python programs works: {', '.join(candidates)}",
        field="ASSAY_SANDBOX_PYTHON",
    )


def _claim_users(settings: SandboxSettings) -> tuple[int, socket.socket]:
    """The first range of users, one per slot, that no other sandbox here has.

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


def _runs(python: str, uid: int | None) -> bool:
    """Whether it starts and imports from its library as that user; the way the harness does."""
    become = "" if uid is None else f"import os; os.setgroups([]); os.setuid({uid}); "
    try:
        subprocess.run(
            [python, *PYTHON_FLAGS, "-c", become + _PROBE],
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


#: No site packages, no user site, no current folder on the path, no caches written, and UTF-8 in
#: any locale. (-I would also ignore the hash seed, which makes runs repeatable.)
PYTHON_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
