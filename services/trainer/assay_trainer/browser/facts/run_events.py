"""Reads a run's events as they come; steps that a resume replaced are left out."""

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from assay_shared.runs.regular_file import open_regular, reason_of
from assay_shared.runs.run_folder import read_event
from assay_shared.settings.validation import message_of
from assay_trainer import events
from assay_trainer.browser.reading.lines import FoundLine, whole_lines

#: Steps kept of a stage; of a longer run, the oldest steps are left out of curves and funnel.
MOST_STEPS = 20_000
_MOST_LINE_BYTES = 16 * 2**20
_MOST_RESULTS = 2000
_MOST_DAMAGED = 20
_Step = TypeVar("_Step")


class RunEvents:
    """The events of a run so far."""

    def __init__(self, file: Path) -> None:
        """Start before the first event of `file`."""
        self._file = file
        self._position = 0
        self._inode = 0
        #: Why the file cannot be read; empty if it can, or if there is no file.
        self.unreadable = ""
        self._forget()

    def _forget(self) -> None:
        self.steps: dict[int, events.StepEvent] = {}
        self.sft: dict[int, events.SFTStep] = {}
        self.dpo: dict[int, events.DPOStep] = {}
        self.evaluated: list[events.Evaluated] = []
        self.tiers: list[events.TierEvaluated] = []
        self.stages_s: dict[str, float] = {}
        self.set_aside: list[events.TaskSetAside] = []
        self.data: events.DataOpened | None = None
        self.leaks: events.LeaksChecked | None = None
        self.num_resumes = 0
        #: The step after which GRPO was resumed last.
        self.grpo_resumed_at = 0
        self.num_dropped_steps = 0
        self.ended_early: str | None = None
        self.end: events.RunEnded | None = None
        #: Seconds since the epoch: of the newest event, and of the newest step of any stage.
        self.last_at: float | None = None
        self.last_step_at: float | None = None
        #: The stage that has begun and not ended, and when it began.
        self.open_stage: tuple[str, float] | None = None
        self.num_damaged = 0
        #: The first damaged lines, each with its first byte and the reason.
        self.damaged: list[str] = []
        self._num_lines = 0

    @property
    def position(self) -> int:
        """The byte after the last event that was read."""
        return self._position

    def update(self) -> None:
        """Read the events that came since the last call."""
        try:
            with open_regular(self._file) as content:
                status = os.fstat(content.fileno())
                if status.st_ino != self._inode or status.st_size < self._position:
                    self._position, self._inode = 0, status.st_ino
                    self._forget()
                for line in whole_lines(content, self._position, _MOST_LINE_BYTES):
                    self._position = line.offset + line.length
                    self._num_lines += 1
                    self._take(line)
            self.unreadable = ""
        except FileNotFoundError:
            self.unreadable = ""
        except OSError as error:
            self.unreadable = reason_of(error)

    def _take(self, line: FoundLine) -> None:
        event = None if line.problem else read_event(line.content)
        if event is None:
            reason = line.problem or "it is not an event with time, kind and data"
            self._note_damage(line, reason)
            return
        try:
            content = events.content(event)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, ("data", *first["loc"])))
            self._note_damage(line, f"{event.kind}: {field}: {message_of(first)}")
            return
        if event.kind == "stage_started":
            self.end = None  # a resumed run continues
        self._note_time(event.time, content)
        self._take_content(content)

    def _note_time(self, at: float, content: BaseModel | None) -> None:
        self.last_at = at
        match content:
            case events.StageStarted():
                self.open_stage, self.last_step_at = (content.stage, at), None
            case events.StageFinished() | events.RunEnded():
                self.open_stage = None
            case events.StepEvent() | events.SFTStep() | events.DPOStep():
                self.last_step_at = at

    def _note_damage(self, line: FoundLine, reason: str) -> None:
        self.num_damaged += 1
        if len(self.damaged) < _MOST_DAMAGED:
            place = f"events.jsonl:{self._num_lines} (byte {line.offset})"
            self.damaged.append(f"damaged line {place}: {reason:.300}")

    def _take_content(self, content: BaseModel | None) -> None:
        match content:
            case events.StepEvent():
                self.steps[content.step] = content
                self.num_dropped_steps += _drop_oldest(self.steps)
            case events.SFTStep():
                self.sft[content.step] = content
                _drop_oldest(self.sft)
            case events.DPOStep():
                self.dpo[content.step] = content
                _drop_oldest(self.dpo)
            case events.Resumed():
                self._take_resume(content)
            case events.StageFinished():
                spent_s = self.stages_s.get(content.stage, 0.0)
                self.stages_s[content.stage] = spent_s + content.took_s
            case events.Evaluated() | events.TierEvaluated() | events.TaskSetAside():
                self._take_result(content)
            case events.DataOpened() | events.LeaksChecked():
                self._take_data(content)
            case events.GRPOEndedEarly():
                self.ended_early = content.message
            case events.RunEnded():
                self.end = content

    def _take_data(self, content: events.DataOpened | events.LeaksChecked) -> None:
        if isinstance(content, events.DataOpened):
            self.data = content
        else:
            self.leaks = content

    def _take_result(
        self, content: events.Evaluated | events.TierEvaluated | events.TaskSetAside
    ) -> None:
        if len(self.evaluated) + len(self.tiers) + len(self.set_aside) >= _MOST_RESULTS:
            return
        match content:
            case events.Evaluated():
                self.evaluated.append(content)
            case events.TierEvaluated():
                self.tiers.append(content)
            case _:
                self.set_aside.append(content)

    def _take_resume(self, resumed: events.Resumed) -> None:
        self.num_resumes += 1
        self.end = None
        match resumed.stage:
            case "grpo":
                self.grpo_resumed_at = resumed.step
                _drop_after(self.steps, resumed.step)
            case "sft":
                _drop_after(self.sft, resumed.step)
            case "dpo":
                _drop_after(self.dpo, resumed.step)


def _drop_oldest(steps: dict[int, _Step]) -> int:
    """Keep at most `MOST_STEPS`; return the number of dropped steps."""
    if len(steps) <= MOST_STEPS:
        return 0
    del steps[next(iter(steps))]
    return 1


def _drop_after(steps: dict[int, _Step], last: int) -> None:
    for number in [one for one in steps if one > last]:
        del steps[number]
