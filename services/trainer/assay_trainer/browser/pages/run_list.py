"""The rows of the page of all runs."""

import os
import pwd
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from assay_shared.clients.trainer import RunInfo
from assay_shared.errors import InvalidInput
from assay_shared.runs.regular_file import open_regular
from assay_shared.runs.run_folder import RunFolder, check_run_name, read_event
from assay_shared.statistics.interval import Interval
from assay_trainer.browser.facts.run_cost import RecordedCost, RecordedCosts
from assay_trainer.browser.facts.summary import flat_config, read_config
from assay_trainer.browser.pages.places import ServicePlaces
from assay_trainer.events import RunEnded

_TAIL_BYTES = 64 * 1024
_MOST_KEPT = 4096
#: A page reads costs from new events this long, then shows what is read.
_READ_S = 0.2


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
    owner: str
    cost: RecordedCost


class RunColumn(StrEnum):
    """The column by which the runs are sorted; `changed` has the newest run first."""

    CHANGED = "changed"
    NAME = "name"
    STATE = "state"
    STAGE = "stage"
    GAIN = "gain"
    MODEL = "model"
    DATA = "data"
    OWNER = "owner"
    COST = "cost"


@dataclass(frozen=True)
class _RunFacts:
    """What config.json says; `searched` has all settings in lower case."""

    model: str
    data: str
    searched: str
    owner: str = ""


class RunRows:
    """Rows of runs; facts of unchanged files are kept."""

    def __init__(self) -> None:
        self._facts: OrderedDict[tuple[Path, int], _RunFacts] = OrderedDict()
        self._gains: OrderedDict[tuple[Path, int], Interval | None] = OrderedDict()
        self._costs = RecordedCosts()

    def matching(
        self, runs: Sequence[RunInfo], searched: str, order: RunColumn = RunColumn.CHANGED
    ) -> list[RunInfo]:
        """Return the runs with each word of a search, in order.

        Words are searched in name, state, owner, cost and settings. Gains and costs are sorted from
        the largest, and names from the first letter.
        """
        words, deadline = searched.lower().split(), time.monotonic() + _READ_S
        found = list(runs)
        if words:
            texts = ((run, self._text(run, deadline)) for run in runs)
            found = [run for run, text in texts if all(word in text for word in words)]
        if order is RunColumn.CHANGED:
            return found
        rows = {run.name: self.row(run, deadline) for run in found}
        if order is RunColumn.COST:
            return sorted(found, key=lambda run: rows[run.name].cost.order, reverse=True)
        if order is RunColumn.GAIN:
            return sorted(found, key=lambda run: _falling(rows[run.name].gain))
        column = "at" if order is RunColumn.STAGE else str(order)
        return sorted(found, key=lambda run: _text_key(getattr(rows[run.name], column)))

    def _text(self, run: RunInfo, deadline: float) -> str:
        facts = self._of(run)
        cost = self._costs.read(RunFolder(Path(run.folder)).events, deadline).told.lower()
        name = run.name.lower()
        return f"{name} {run.status.state} {facts.owner.lower()} {cost} {facts.searched}"

    def rows(self, runs: Sequence[RunInfo]) -> list[RunRow]:
        """Return the rows of runs; costs are read as far as the time allows."""
        deadline = time.monotonic() + _READ_S
        return [self.row(run, deadline) for run in runs]

    def row(self, run: RunInfo, deadline: float) -> RunRow:
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
            owner=facts.owner,
            cost=self._costs.read(RunFolder(Path(run.folder)).events, deadline),
        )

    def _of(self, run: RunInfo) -> _RunFacts:
        folder = RunFolder(Path(run.folder))
        try:
            written = folder.config.stat()
            key = (folder.path, written.st_mtime_ns)
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
            owner = content.get("started_by") or _user(written.st_uid)
            self._facts[key] = _RunFacts(model, data, searched[:20_000], str(owner)[:100])
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


def _user(number: int) -> str:
    """Return the name of a user of this machine; empty if the number has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return ""


def _falling(gain: Interval | None) -> tuple[bool, float]:
    """Return a key for the largest first, and runs without a gain last."""
    return gain is None, 0.0 if gain is None else -gain.value


def _text_key(text: str) -> tuple[bool, str]:
    """Return a key for the alphabet, with empty texts last."""
    return not text, text.lower()


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
