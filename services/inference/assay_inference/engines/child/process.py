"""An engine's server as a child process: started, watched, and ended with all its processes."""

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from assay_inference.settings import InferenceSettings
from assay_shared.errors import ConfigError
from assay_shared.runtime import guard
from assay_shared.runtime.processes import last_lines
from assay_shared.runtime.temporary_folder import TemporaryFolder

_FIRST_WAIT_S = 0.5


_LONGEST_WAIT_S = 30.0


class RestartBudget:
    """At most `max_restarts` restarts within `window_s`, with doubling waits."""

    def __init__(self, max_restarts: int, window_s: float) -> None:
        self._max_restarts = max_restarts
        self._window_s = window_s
        self._starts: deque[float] = deque()

    def next_wait_s(self) -> float | None:
        """Count a restart and return the wait before it; None if the budget is spent."""
        now = time.monotonic()
        while self._starts and now - self._starts[0] > self._window_s:
            self._starts.popleft()
        if len(self._starts) >= self._max_restarts:
            return None
        self._starts.append(now)
        return float(min(_FIRST_WAIT_S * 2 ** (len(self._starts) - 1), _LONGEST_WAIT_S))


_log = logging.getLogger(__name__)

#: The line of a traceback that says what was raised, with or without an engine's prefix.
_RAISED = re.compile(r"(?:^|\] )((?:\w+\.)*\w*(?:Error|Exception)\b.*)")
_ERROR = re.compile(r"\bERROR\b")
#: Most bytes copied from the log of a child that ended unasked.
_NUM_LINES_KEPT = 100
_VERSION_TIMEOUT_S = 60.0
_FIND_VERSION = """
import importlib.metadata as metadata, json
found = {d.metadata["Name"]: d.version for d in metadata.distributions()}
print(json.dumps(next((found[name] for name in %r if name in found), None)))
"""


@dataclass(frozen=True)
class SupportedVersions:
    """Of the engine `name`: `oldest`, and all of the release line `newest`."""

    name: str
    distributions: tuple[str, ...]
    oldest: tuple[int, int, int]
    newest: tuple[int, ...]
    #: Environment variable that names the interpreter.
    field: str

    def check(self, python: str) -> str:
        """Return the version in the environment of `python`.

        Raises:
            ConfigError: the package is missing, or its version is not supported.
        """
        command = [python, "-c", _FIND_VERSION % (self.distributions,)]
        try:
            shown = subprocess.run(
                command, capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True
            ).stdout
            version = json.loads(shown)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise ConfigError(f"{python} does not run: {error}", field=self.field) from error
        supported = f"{_dotted(self.oldest)} to {_dotted(self.newest)} are supported"
        if version is None:
            raise ConfigError(
                f"there is no {self.name} in the environment of {python}",
                field=self.field,
                hint=supported,
            )
        numbers = tuple(
            int(part) for part in version.partition("+")[0].split(".")[:3] if part.isdigit()
        )
        if not (numbers >= self.oldest and numbers[: len(self.newest)] <= self.newest):
            raise ConfigError(
                f"{python} has {self.name} {version}", field=self.field, hint=supported
            )
        return str(version)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in numbers)


def new_folder(name: str) -> TemporaryFolder:
    """Make a folder for a child's socket and log; only this user can open it."""
    # A socket's path may have no more than 107 characters.
    return TemporaryFolder(f"assay-{name}-")


def inherited_environment(settings: InferenceSettings) -> dict[str, str]:
    """Return the environment without Assay's settings (some are secret), with the chosen GPUs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "PYTHON"))}
    devices = settings.inference_devices.replace("+", ",")
    return kept | ({"CUDA_VISIBLE_DEVICES": devices} if devices else {})


class ServerProcess:
    """A child in its own session, with its files in `folder`; the folder ends with it."""

    def __init__(
        self, folder: TemporaryFolder, command: list[str], environment: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._log = folder.path / "server.log"
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, *command],
                stdin=subprocess.PIPE,  # held open: when this process ends, so does the child
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._is_over = False

    @property
    def pid(self) -> int:
        """Also the id of the session's process group."""
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        """Return the end of the server's log, for a message."""
        lines = last_lines(self._log, 400)
        raised = [found.group(1) for line in lines if (found := _RAISED.search(line))]
        # Where a part of an engine fails, the rest of it fails for that: the first is the cause.
        told = list(dict.fromkeys(raised[:1] + raised[-1:]))
        told = told or [line for line in lines if _ERROR.search(line)][-2:] or lines[-2:]
        return " | ".join(line.strip()[:500] for line in told) or "its log is empty"

    def kill(self) -> None:
        """End the whole session at once, whatever state it is in."""
        if not self._is_over and not self.is_running():
            text = "\n".join(last_lines(self._log, _NUM_LINES_KEPT))
            _log.warning("an engine has ended unasked; the end of its log:\n%s", text)
        self._clear()

    def end(self, grace_s: float) -> None:
        """Request its end, and kill the rest after `grace_s`. Blocks."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kill is next
            self._process.wait(grace_s)
        self._clear()

    def _clear(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        with contextlib.suppress(ProcessLookupError):  # all of it has ended already
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._folder.remove()
