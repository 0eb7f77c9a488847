"""The rows of the page of all runs."""

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from assay_shared.clients.trainer import RunInfo
from assay_shared.errors import InvalidInput
from assay_shared.runs.regular_file import open_regular
from assay_shared.runs.run_folder import RunFolder, check_run_name, read_event
from assay_shared.statistics.interval import Interval
from assay_trainer.browser.facts.summary import flat_config, read_config
from assay_trainer.browser.pages.places import ServicePlaces
from assay_trainer.events import RunEnded

_TAIL_BYTES = 64 * 1024
_MOST_KEPT = 4096


@dataclass(frozen=True)
class RunRow:
    """A run in the list."""

    name: str
    #: Empty if the service refuses the run's name.
    link: str
    why_no_link: str
    state: str
    message: str
    at: str
    gain: Interval | None
    model: str
    data: str
    changed: str


@dataclass(frozen=True)
class _RunFacts:
    """What the configuration says; `searched` has all settings in lower case."""

    model: str
    data: str
    searched: str


class RunRows:
    """Rows of runs; facts of unchanged files are kept."""

    def __init__(self) -> None:
        self._facts: OrderedDict[tuple[Path, int], _RunFacts] = OrderedDict()
        self._gains: OrderedDict[tuple[Path, int], Interval | None] = OrderedDict()

    def matching(self, runs: Sequence[RunInfo], searched: str) -> list[RunInfo]:
        """Return the runs with each word of a search in name, state or settings."""
        words = searched.lower().split()
        return [run for run in runs if all(word in self._text(run) for word in words)]

    def _text(self, run: RunInfo) -> str:
        return f"{run.name.lower()} {run.status.state} {self._of(run).searched}"

    def row(self, run: RunInfo) -> RunRow:
        """Return a run's row."""
        status, facts = run.status, self._of(run)
        at = (
            f"{status.stage} {status.step}/{status.num_steps}" if status.num_steps else status.stage
        )
        if run.queue_position is not None:
            at = f"place {run.queue_position} of the queue"
        refused = _refusal(run.name)
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(status.updated))
        return RunRow(
            name=run.name,
            link="" if refused else ServicePlaces(run.name).run(),
            why_no_link=refused,
            state=status.state,
            message=status.message[:300],
            at=at,
            gain=self._gain(Path(run.folder)),
            model=facts.model,
            data=facts.data,
            changed=changed if status.updated else "",
        )

    def _of(self, run: RunInfo) -> _RunFacts:
        folder = RunFolder(Path(run.folder))
        try:
            key = (folder.path, folder.config.stat().st_mtime_ns)
        except OSError:
            return _RunFacts("", "", "")
        if key not in self._facts:
            content, config = read_config(folder)
            model, data = "", ""
            if config is not None:
                found = config.policy.model_dump(mode="json")
                model = str(found.get("model") or found.get("path") or "new")
                train = config.data.train.model_dump(mode="json")
                data = str(train.get("path") or train.get("name") or train.get("kind", ""))
            settings = content.get("config", {})
            some = flat_config(settings) if isinstance(settings, dict) else ()
            searched = " ".join(f"{name}={value}" for name, value in some).lower()
            self._facts[key] = _RunFacts(model, data, searched[:20_000])
            while len(self._facts) > _MOST_KEPT:
                self._facts.popitem(last=False)
        return self._facts[key]

    def _gain(self, folder: Path) -> Interval | None:
        """Return the gain of a finished run, from the end of its events."""
        file = RunFolder(folder).events
        try:
            with open_regular(file) as content:
                size = os.fstat(content.fileno()).st_size
                key = (file, size)
                if key not in self._gains:
                    content.seek(max(0, size - _TAIL_BYTES))
                    self._gains[key] = _last_gain(content.read(_TAIL_BYTES))
                    while len(self._gains) > _MOST_KEPT:
                        self._gains.popitem(last=False)
                return self._gains[key]
        except OSError:
            return None


def _refusal(name: str) -> str:
    """Return why the service has no page of a run with this name; empty if it has one."""
    try:
        check_run_name(name)
    except InvalidInput as error:
        return f"{error.message}: {error.hint}"
    return ""


def _last_gain(tail: bytes) -> Interval | None:
    for line in reversed(tail.splitlines(keepends=True)):
        event = read_event(line)
        if event is not None and event.kind == "run_finished":
            try:
                return RunEnded.model_validate(event.data).gain
            except ValidationError:
                return None
    return None
