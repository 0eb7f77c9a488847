"""Runs as processes of the trainer service: each in its folder, none inside the service itself.

The lock of a run's folder tells whether, and by which process, the run is trained: a run started
by a command is shown like a run of the service.
"""

import asyncio
import builtins
import logging
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from assay_shared.clients.trainer import RunInfo, RunRequest
from assay_shared.errors import AssayError, Conflict, InvalidInput, NotFound, Overloaded
from assay_shared.runs import run_lock
from assay_shared.runs.run_folder import RunFolder, RunStatus, check_run_name
from assay_shared.runtime.processes import last_lines, spawn, wait_or_kill
from assay_shared.settings.run_file import parse_config
from assay_trainer.config import RunConfig
from assay_trainer.curriculum.winner import with_winner
from assay_trainer.endings import lost_message
from assay_trainer.inert_rules import refuse_inert
from assay_trainer.service.event_stream import EventStreams, check_position
from assay_trainer.service.interrupted import (
    find_interrupted,
    forget_started,
    may_resume,
    note_started,
)
from assay_trainer.service.record import create_run

_log = logging.getLogger(__name__)
#: Left in the folder of a run that was stopped only because its service was.
_RESUME = ".resume"
_EVENT_ID = re.compile(r"[0-9]{1,18}")
_START_NEXT_EVERY_S = 0.5
_RETRY_AFTER_S = 60.0


class Runs:
    """The runs below a folder, and the processes of the runs started by this service."""

    def __init__(
        self,
        folder: Path,
        stop_grace_s: float = 20.0,
        max_running: int = 1,
        max_waiting: int = 64,
    ) -> None:
        """Store the limits.

        Args:
            stop_grace_s: time for a run's current step when the service stops.
            max_running: processes of this service at once; further runs wait in a queue.
            max_waiting: runs in the queue.
        """
        self._folder = folder
        self._stop_grace_s = stop_grace_s
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._streams = EventStreams()
        self._stop_by: float | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._waiting: builtins.list[str] = []
        #: Runs that were asked to stop: a second signal would end one without its checkpoint.
        self._stopping: set[str] = set()
        #: Runs of the last service whose processes have not ended yet.
        self._orphans: builtins.list[str] = []

    def start(self, request: RunRequest, started_by: str = "") -> RunInfo:
        """Create a run's folder, and start its process or put it in the queue.

        `started_by` is the name of the client's key.

        Raises:
            ConfigError: the run file is not valid, or a switch in it cannot act.
            Conflict: a run of that name exists.
            Overloaded: too many runs wait.
        """
        config = parse_config(RunConfig, with_winner(dict(request.config)), source="config")
        refuse_inert(config)
        check_run_name(request.name)
        self._check_room()
        create_run(self._folder / request.name, config, started_by)
        note_started(self._folder / request.name)
        return self._enqueue(request.name)

    def list(self) -> list[RunInfo]:
        """Return all runs, newest first. An unreadable run is listed with the reason.

        Reads each run's files: not for an event loop.
        """
        folders = []
        for path in self._folder.glob("*/config.json"):
            with suppress(OSError):  # it is being deleted
                folders.append((path.parent.stat().st_mtime, path.parent.name))
        return [self._info(name) for _, name in sorted(folders, reverse=True)]

    def started(self) -> "builtins.list[RunInfo]":
        """Return the runs started or queued by this service."""
        return [self._info(name) for name in (*self._processes, *self._waiting)]

    def running(self) -> dict[str, RunFolder]:
        """Return the runs of this service with a living process, by name."""
        return {
            name: RunFolder(self._folder / name)
            for name in tuple(self._processes)
            if self._has_process(name)
        }

    def info(self, name: str) -> RunInfo:
        """Return a run's state; a run without its process and without an end has failed."""
        self._open(name)
        return self._info(name)

    def _info(self, name: str) -> RunInfo:
        folder = RunFolder(self._folder / name)
        status, position = folder.read_status_or_damage(), None
        waiting = tuple(self._waiting)  # the event loop changes it while another thread lists
        if name in waiting:
            position = waiting.index(name) + 1
        elif status.state in ("created", "queued", "running"):
            status = self._seen(folder, status)
        return RunInfo(name=name, folder=str(folder.path), status=status, queue_position=position)

    def _seen(self, folder: RunFolder, status: RunStatus) -> RunStatus:
        """Return an unended run's status, corrected by its process or the lack of a process."""
        if self._is_alive(folder.path.name):
            return status.model_copy(update={"state": "running"})
        last = " ".join(last_lines(folder.path / "run.log", 1))
        message = last or "it was never started; resume it"
        if status.state == "running":
            message = f"{lost_message(status)}; resume it to continue{last and ': '}{last}"
        return status.model_copy(update={"state": "failed", "message": message[:1000]})

    def stop(self, name: str) -> RunInfo:
        """Request a stop after the current step, or take the run out of the queue; it can be
        resumed.

        Raises:
            Conflict: it belongs to a process not started by this service.
        """
        self._open(name)
        forget_started(self._folder / name)
        if name in self._waiting:
            self._leave_queue(name)
        elif self._has_process(name):
            self._ask_to_stop(name)
        else:
            self._refuse_if_owned(name)
        return self.info(name)

    def _leave_queue(self, name: str) -> None:
        self._waiting.remove(name)
        folder, message = RunFolder(self._folder / name), "the run was taken out of the queue"
        folder.record("run_stopped", message=message)
        folder.write_status(RunStatus(state="stopped", message=message))

    def _ask_to_stop(self, name: str) -> None:
        if self._has_process(name) and name not in self._stopping:
            self._stopping.add(name)
            self._processes[name].terminate()

    def resume(self, name: str) -> RunInfo:
        """Resume a run, or queue it.

        Raises:
            Conflict: it is running, waits already, or is finished.
            Overloaded: too many runs wait.
        """
        folder = self._open(name)
        if name in self._waiting:
            raise Conflict(f"run {name} waits to be started already")
        if self._has_process(name):
            raise Conflict(f"run {name} is running")
        self._refuse_if_owned(name)
        if folder.read_status_or_damage().state == "finished":
            raise Conflict(f"run {name} is finished")
        self._check_room()
        note_started(folder.path)
        return self._enqueue(name)

    def _refuse_if_owned(self, name: str) -> None:
        owner = run_lock.owner_of(self._folder / name)
        if owner is not None:
            raise Conflict(f"run {name} belongs to {owner}")

    async def events(self, name: str, last_event_id: str = "0") -> AsyncIterator[bytes]:
        """Return the server-sent events of a run after the event with this id.

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
        """Request a stop after the current step from all runs of this service.

        The next service on this folder resumes them, and the runs in the queue.
        """
        if self._stop_by is not None:
            return
        self._stop_by = time.monotonic() + self._stop_grace_s
        for position, name in enumerate(self._waiting, start=1):
            (self._folder / name / _RESUME).write_text(f"{position:06d}")
        for name, run in self.running().items():
            if name not in self._stopping:
                (run.path / _RESUME).touch()
            self._ask_to_stop(name)

    def close(self) -> None:
        """End all runs of this service; kill the overdue ones."""
        self.begin_stop()
        assert self._stop_by is not None
        left_s = max(0.0, self._stop_by - time.monotonic())
        wait_or_kill(list(self._processes.values()), left_s)

    def resume_stopped(self) -> None:
        """Resume the runs stopped, left in the queue or lost at the end of the last service."""
        marks = self._folder.glob(f"*/{_RESUME}")
        for mark in sorted(marks, key=lambda mark: mark.read_bytes()):
            mark.unlink()
            name = mark.parent.name
            try:
                status = self._open(name).read_status_or_damage()
            except AssayError as error:
                _log.warning("run %r cannot be resumed: %s", name, error)
                continue
            if status.state != "finished" and run_lock.owner_of(mark.parent) is None:
                _log.info("resuming run %s: the end of the last service stopped it", name)
                self._enqueue(name)
        self._orphans = [name for name in find_interrupted(self._folder) if not self._is_ours(name)]
        self._resume_orphans()

    def _is_ours(self, name: str) -> bool:
        return name in self._waiting or self._has_process(name)

    def _resume_orphans(self) -> None:
        """Resume the runs of the last service that no process holds any more."""
        for name in tuple(self._orphans):
            folder = RunFolder(self._folder / name)
            if run_lock.owner_of(folder.path) is not None:
                continue
            self._orphans.remove(name)
            status = folder.read_status_or_damage()
            if self._is_ours(name) or name not in find_interrupted(self._folder):
                continue  # somebody resumed it, or stopped it, or it came to its end
            if status.state == "queued" or may_resume(folder):
                _log.info("resuming run %s: the last service ended before it", name)
                self._enqueue(name)
            else:
                message = "its machine failed several times before a new checkpoint; resume it"
                folder.write_status(
                    status.model_copy(update={"state": "failed", "message": message})
                )

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        """Start runs of the queue as others end, while the block lasts."""

        async def start() -> None:
            while True:
                self.start_next()
                await asyncio.sleep(_START_NEXT_EVERY_S)

        task = asyncio.create_task(start())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def start_next(self) -> None:
        """Start waiting runs, as far as there is room."""
        self._resume_orphans()
        while self._waiting and self._stop_by is None and len(self.running()) < self._max_running:
            name = self._waiting.pop(0)
            try:
                self._spawn(name)
            except OSError as error:
                _log.exception("run %s could not be started", name)
                failed = RunStatus(state="failed", message=f"it could not be started: {error}")
                with suppress(OSError):  # a full disk, or a deleted folder
                    RunFolder(self._folder / name).write_status(failed)

    def _check_room(self) -> None:
        if len(self.running()) >= self._max_running and len(self._waiting) >= self._max_waiting:
            raise Overloaded(
                f"{len(self._waiting)} runs wait already, and no more may",
                hint="ASSAY_TRAINER_MAX_WAITING",
                retry_after_s=_RETRY_AFTER_S,
            )

    def _enqueue(self, name: str) -> RunInfo:
        self._waiting.append(name)
        self.start_next()
        if name in self._waiting:
            folder = RunFolder(self._folder / name)
            if folder.read_status_or_damage().state != "running":  # its lost end is told later
                folder.write_status(RunStatus(state="queued"))
        return self.info(name)

    def _spawn(self, name: str) -> None:
        folder = RunFolder(self._folder / name)
        self._stopping.discard(name)
        if folder.read_status_or_damage().state != "running":  # its process tells of a lost end
            folder.write_status(RunStatus(stage="starting"))
        command = (sys.executable, "-m", "assay_shared.cli", "train", "--resume", str(folder.path))
        self._processes[name] = spawn((*command, "--quiet"), log=folder.path / "run.log")

    def _open(self, name: str) -> RunFolder:
        check_run_name(name)
        try:
            return RunFolder.open(self._folder / name)
        except NotFound:
            raise NotFound(f"there is no run {name!r}") from None

    def _has_process(self, name: str) -> bool:
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    def _is_alive(self, name: str) -> bool:
        """Return True while events may still come: the run waits, or a process trains it."""
        if name in self._waiting or self._has_process(name):
            return True
        try:
            return run_lock.owner_of(self._folder / name) is not None
        except OSError:
            return False
