"""Runs as processes of the trainer service: each in its folder, none inside the service itself."""

import asyncio
import builtins
import logging
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from assay_shared.clients.trainer import RunInfo, RunRequest
from assay_shared.config import parse_config
from assay_shared.errors import Conflict, InvalidInput, NotFound
from assay_shared.processes import last_lines, spawn, wait_or_kill
from assay_shared.run_folder import RunFolder, RunStatus
from assay_trainer.config import RunConfig
from assay_trainer.event_stream import EventStreams, check_position
from assay_trainer.record import create_run

_log = logging.getLogger(__name__)
#: Left in the folder of a run that was stopped only because its service was.
_RESUME = ".resume"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_EVENT_ID = re.compile(r"[0-9]{1,18}")


class Runs:
    """The runs below one folder, and the processes of those that this service started."""

    def __init__(self, folder: Path, stop_grace_s: float = 20.0) -> None:
        """`stop_grace_s`: what runs have for the step in hand when the service stops."""
        self._folder = folder
        self._stop_grace_s = stop_grace_s
        self._streams = EventStreams()
        self._stop_by: float | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        #: Who was asked to stop: a second signal would end a run without its checkpoint.
        self._stopping: set[str] = set()

    def start(self, request: RunRequest) -> RunInfo:
        """Create a run's folder and its process.

        Raises:
            ConfigError: the run file is not valid.
            Conflict: there is a run of that name.
        """
        config = parse_config(RunConfig, request.config, source="config")
        _check_name(request.name)
        create_run(self._folder / request.name, config)
        return self._spawn(request.name)

    def list(self) -> list[RunInfo]:
        """All runs, newest first."""
        folders = [path.parent for path in self._folder.glob("*/config.json")]
        folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        return [self.info(folder.name) for folder in folders]

    def started(self) -> "builtins.list[RunInfo]":
        """Those that this service has started."""
        return [self.info(name) for name in tuple(self._processes)]

    def running(self) -> dict[str, RunFolder]:
        """Those whose process lives, by name."""
        return {
            name: RunFolder(self._folder / name) for name in self._processes if self._is_alive(name)
        }

    def info(self, name: str) -> RunInfo:
        """Where a run stands; one whose process is gone without a word has failed."""
        folder = self._open(name)
        status = folder.read_status()
        if status.state in ("created", "running") and not self._is_alive(name):
            last = " ".join(last_lines(folder.path / "run.log", 1))
            message = last or "its process is gone; resume it to go on"
            status = status.model_copy(update={"state": "failed", "message": message})
        return RunInfo(name=name, folder=str(folder.path), status=status)

    def stop(self, name: str) -> RunInfo:
        """Ask a run to stop after its step; it can be resumed."""
        self._open(name)
        self._ask_to_stop(name)
        return self.info(name)

    def _ask_to_stop(self, name: str) -> None:
        if self._is_alive(name) and name not in self._stopping:
            self._stopping.add(name)
            self._processes[name].terminate()

    def resume(self, name: str) -> RunInfo:
        """Go on with a run that is not running.

        Raises:
            Conflict: it is running, or finished.
        """
        if self._is_alive(name):
            raise Conflict(f"run {name} is running")
        if self._open(name).read_status().state == "finished":
            raise Conflict(f"run {name} is finished")
        return self._spawn(name)

    async def events(self, name: str, last_event_id: str = "0") -> AsyncIterator[bytes]:
        """Return what a client of a run's events is sent, after the event with this id.

        Raises:
            InvalidInput: no event has this id.
        """
        file = self._open(name).events
        if not _EVENT_ID.fullmatch(last_event_id):
            raise InvalidInput("must be the id of an event", field="last-event-id")
        position = int(last_event_id)
        await asyncio.to_thread(check_position, file, position)
        return self._streams.follow(file, position, lambda: self._is_alive(name))

    def begin_stop(self) -> None:
        """Ask all runs that this service started to stop after their step.

        Those are resumed by the next service that starts on this folder.
        """
        if self._stop_by is not None:
            return
        self._stop_by = time.monotonic() + self._stop_grace_s
        for name, run in self.running().items():
            if name not in self._stopping:
                (run.path / _RESUME).touch()
            self._ask_to_stop(name)

    def close(self) -> None:
        """End all runs that this service started: what is over its time is killed."""
        self.begin_stop()
        assert self._stop_by is not None
        left_s = max(0.0, self._stop_by - time.monotonic())
        wait_or_kill(list(self._processes.values()), left_s)

    def resume_stopped(self) -> None:
        """Go on with the runs that the last service's end has stopped."""
        for mark in sorted(self._folder.glob(f"*/{_RESUME}")):
            mark.unlink()
            name = mark.parent.name
            if self._open(name).read_status().state != "finished":
                _log.info("going on with run %s, which the end of the last service stopped", name)
                self._spawn(name)

    def _spawn(self, name: str) -> RunInfo:
        folder = self._folder / name
        self._stopping.discard(name)
        RunFolder(folder).write_status(RunStatus(state="running", stage="starting"))
        self._processes[name] = spawn(
            [sys.executable, "-m", "assay_shared.cli", "train", "--resume", str(folder), "--quiet"],
            log=folder / "run.log",
        )
        return self.info(name)

    def _open(self, name: str) -> RunFolder:
        _check_name(name)
        try:
            return RunFolder.open(self._folder / name)
        except NotFound:
            raise NotFound(f"there is no run {name!r}") from None

    def _is_alive(self, name: str) -> bool:
        process = self._processes.get(name)
        return process is not None and process.poll() is None


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:100]!r} is no name for a run",
            field="name",
            hint="letters, digits, '_', '.' and '-', at most 100, the first a letter or digit",
        )
