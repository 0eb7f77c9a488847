"""Finds an interpreter, users and Python packages for slots on this host."""

import importlib.util
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import ConfigError
from assay_shared.types import AssertCase, ProgramRequest, TestRequest

#: UTF-8 in any locale. More flags would show in `sys.flags` and pass to a program's children.
#: A virtual environment (interpreter.py) keeps the host's packages out.
PYTHON_FLAGS = ("-X", "utf8")
_PROBE_FLAGS = ("-s", "-S", "-P", "-B", *PYTHON_FLAGS)
_PROBE = "import json, random, collections, sys; print(sys.base_prefix); "
_PROBE += "print('%d.%d' % sys.version_info[:2])"
_PROBE_TIMEOUT_S = 20
#: Users of a sandbox, two for each slot; and the most sandboxes on a machine.
_RANGE = 4096
_MAX_SANDBOXES = 32


#: Packages shown to programs if the settings name no folder of packages.
SCIENTIFIC = (
    "numpy",
    "scipy",
    "sympy",
    "mpmath",
    "pandas",
    "dateutil",
    "pytz",
    "six.py",
    "networkx",
    "sklearn",
    "scikit_learn.libs",
    "joblib",
    "cloudpickle",
    "narwhals",
    "threadpoolctl.py",
    "matplotlib",
    "mpl_toolkits",
    "pylab.py",
    "PIL",
    "pillow",
    "kiwisolver",
    "contourpy",
    "cycler",
    "fontTools",
    "pyparsing",
    "packaging",
    "requests",
    "urllib3",
    "certifi",
    "charset_normalizer",
    "idna",
    "pytest",
    "_pytest",
    "py.py",
    "pluggy",
    "iniconfig",
    "pygments",
)


#: Packages that need numpy. It takes longest to import, so some slots have it imported already.
_WITH_NUMPY = ("numpy", "scipy", "pandas", "sklearn")


@dataclass(frozen=True)
class Host:
    """The interpreter forked by slots, and their first user (None: all have the server's user).

    `claim` keeps other sandboxes on this machine from using the same users.
    """

    python: str
    #: Such as 3.11.
    version: str
    readable: tuple[str, ...]
    first_uid: int | None
    claim: socket.socket | None = field(default=None, compare=False)

    def close(self) -> None:
        """Release the users for other sandboxes."""
        if self.claim is not None:
            self.claim.close()


def examine(settings: SandboxSettings, *, has_namespaces: bool) -> Host:
    """Return a working interpreter, and users for the slots if the server runs as root.

    Without namespaces, the slots' users themselves must be able to reach the interpreter.

    Raises:
        ConfigError: no interpreter works.
    """
    first_uid, claim = _claim_users(settings) if os.geteuid() == 0 else (None, None)
    candidates = _candidates(settings)
    for python in candidates:
        shown = _ask(python, _PROBE, None if has_namespaces else first_uid)
        if shown is not None:
            prefix, version = shown.splitlines()
            return Host(python, version, (prefix,), first_uid, claim)
    if claim is not None:
        claim.close()
    raise ConfigError(
        f"no interpreter for Python programs works: {', '.join(candidates)}",
        field="ASSAY_SANDBOX_PYTHON",
    )


@dataclass(frozen=True)
class Packages:
    """This host's packages for programs: their folder, and the paths in it shown to programs."""

    folder: str
    shown: tuple[str, ...]


def is_faster_with_numpy(request: ProgramRequest) -> bool:
    """Return True if a Python program or a case of it names a package in need of numpy.

    A wrong guess costs time only: every slot can import every package.
    """
    texts = [request.code]
    if isinstance(request, TestRequest):
        texts += [case.code for case in request.cases if isinstance(case, AssertCase)]
    is_named = any(name in text for text in texts for name in _WITH_NUMPY)
    return request.language == "python" and is_named


def packages_folder(settings: SandboxSettings) -> Path | None:
    """Return the folder of packages from the settings, or else the folder of the server's numpy.

    Return None if the settings name no folder and the server has no numpy.
    """
    if settings.sandbox_packages is not None:
        return settings.sandbox_packages
    numpy = importlib.util.find_spec("numpy")
    return None if numpy is None or numpy.origin is None else Path(numpy.origin).parents[1]


def find_packages(settings: SandboxSettings) -> Packages | None:
    """Return the packages in the settings' folder, or else the server's own packages.

    Return None if the settings name no folder and the server has no numpy.
    """
    folder = packages_folder(settings)
    if folder is None:
        return None
    if settings.sandbox_packages is not None:
        return Packages(str(folder), (str(folder),))
    beside = [folder / part for name in SCIENTIFIC for part in (name, f"{name}.libs")]
    # Some packages, such as those that search for plugins, read the metadata of installations.
    beside += [path for name in SCIENTIFIC for path in folder.glob(f"{name}-*.dist-info")]
    return Packages(str(folder), tuple(str(path) for path in beside if path.exists()))


def can_import_numpy(packages: Packages, host: Host, *, has_namespaces: bool) -> bool:
    """Return True if the slots' interpreter can import numpy from `packages`.

    The packages may be for another version of Python.
    """
    uid = None if has_namespaces else host.first_uid
    probe = f"import sys; sys.path.append({packages.folder!r}); import numpy; print(1)"
    return _ask(host.python, probe, uid) is not None


def _claim_users(settings: SandboxSettings) -> tuple[int, socket.socket]:
    """Claim the first unused range of users; return its first user and the claim.

    The claim is a name in the kernel's socket table. It ends with the process in every case.
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
    # The interpreter behind a virtual environment, so that programs get none of its packages.
    own = os.path.realpath(sys.executable)
    return [own, *(p for p in ("/usr/local/bin/python3", "/usr/bin/python3") if Path(p).exists())]


def _ask(python: str, code: str, uid: int | None) -> str | None:
    """Run `code` as user `uid` and return its output; None if it fails."""
    become = "" if uid is None else f"import os; os.setgroups([]); os.setuid({uid}); "
    try:
        shown = subprocess.run(
            [python, *_PROBE_FLAGS, "-c", become + code],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip()
