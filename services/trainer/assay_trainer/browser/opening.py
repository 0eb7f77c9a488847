"""Runs by name or folder, with their events and index."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import RLock

from assay_shared.errors import DatasetError, InvalidInput, NotFound
from assay_shared.runs import run_lock
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_trainer.browser.diagnosis.judged_groups import JudgedSample
from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.browser.facts.summary import RunSummary, read_config, summarise
from assay_trainer.browser.facts.task_counts import TaskCounter
from assay_trainer.browser.reading.filters import SampleFilter
from assay_trainer.browser.reading.run_index import RunIndex
from assay_trainer.browser.samples.advantages import StoredAdvantages
from assay_trainer.browser.samples.detail import SampleDetail, group_details
from assay_trainer.config import RunConfig
from assay_trainer.endings import lost_message

_MOST_SAMPLES = 10_000
#: Files that only a run's folder has.
_RUN_FILES = ("status.json", "events.jsonl", "rollouts.jsonl")


@dataclass(frozen=True)
class OpenedRun:
    """A run that is being read. Threads hold `lock` while they use `events`."""

    folder: RunFolder
    events: RunEvents
    index: RunIndex
    lock: RLock = field(default_factory=RLock)
    judged: JudgedSample = field(default_factory=JudgedSample)
    tasks: TaskCounter = field(default_factory=TaskCounter)
    #: In the place of the folder's name: each run of a pipeline's stage has the same.
    shown_name: str = ""

    @property
    def name(self) -> str:
        return self.shown_name or self.folder.path.name

    @property
    def config(self) -> RunConfig | None:
        """The run's configuration; None if it is of another version."""
        return read_config(self.folder)[1]

    def status(self) -> RunStatus:
        """Return the state; a running run without a process has failed.

        Without status.json, the events that are read so far tell what is known.
        """
        status = self.folder.read_status_or_damage()
        if status == RunStatus() and (self.events.steps or self.events.end):
            return self._status_by_events()
        return status_of(self.folder)

    def _status_by_events(self) -> RunStatus:
        """Return the state of a run that has lost status.json."""
        end, num_steps = self.events.end, len(self.events.steps)
        step = max(self.events.steps, default=0)
        if end is not None and end.report is not None:
            return RunStatus(state="finished", step=step, message="status.json is missing")
        told = f"status.json is missing; events.jsonl has {num_steps} steps of GRPO"
        if end is not None and end.message:
            told += f", and its last word is: {end.message}"
        return RunStatus(state="unreadable", step=step, message=told)

    def summary(self, status: RunStatus | None = None) -> RunSummary:
        """Return the summary of what is read so far."""
        with self.lock:
            self.events.update()
            found = status or self.status()
            judged = self.judged.read(self.index)
            return summarise(self.name, self.folder, found, self.events, self.index, judged)

    def samples(self, given: SampleFilter, limit: int) -> list[SampleDetail]:
        """Return the first matching samples, in the order of steps.

        Raises:
            InvalidInput: the limit is too large.
        """
        if limit > _MOST_SAMPLES:
            raise InvalidInput(f"at most {_MOST_SAMPLES} samples at once", field="--limit")
        return list(islice(self.each(given), limit))

    def each(
        self, given: SampleFilter, told: Callable[[str], None] = lambda _: None
    ) -> Iterator[SampleDetail]:
        """Yield all matching samples, in the order of steps, one group in memory at a time.

        `told` gets each group that cannot be read: its file was changed after the index read it.
        """
        known = StoredAdvantages(self.index, self.config)
        for group_id, places in self.index.matching(given):
            try:
                details = group_details(self.index, known, group_id)
            except (DatasetError, NotFound) as error:
                told(str(error))
                continue
            yield from (one for one in details if one.place in places)


def status_of(folder: RunFolder) -> RunStatus:
    """Return the state of a run; a running run without a process has failed."""
    status = folder.read_status_or_damage()
    if status.state == "running" and run_lock.owner_of(folder.path) is None:
        return status.model_copy(update={"state": "failed", "message": lost_message(status)})
    return status


def open_for_reading(
    folder: RunFolder, indexes: Path | None = None, shown_name: str = ""
) -> OpenedRun:
    """Return a run with nothing read yet; `indexes` is the folder of index files."""
    index = RunIndex(folder.path, indexes)
    return OpenedRun(folder, RunEvents(folder.events), index, shown_name=shown_name)


def find_run(named: str, runs: Path) -> RunFolder:
    """Return the run in a folder, or the run of that name below `runs`.

    Raises:
        NotFound: there is neither.
    """
    for path in (Path(named), runs / named):
        if (path / "config.json").is_file():
            return RunFolder(path)
        if any((path / name).is_file() for name in _RUN_FILES) or _is_empty(path):
            raise NotFound(
                f"{path} cannot be read as a run: it has no config.json",
                hint="the run was not made completely; restore the file, or remove the folder",
            )
    raise NotFound(
        f"no run {named!r:.200}: neither a run's folder nor a name in {runs}",
        hint="`assay trainer list` shows the runs",
    )


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
