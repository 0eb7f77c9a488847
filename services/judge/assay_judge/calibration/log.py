"""The folder of a calibration: the plan, and a line for each judgement, to resume from."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from assay_judge.calibration_record import Expense
from assay_shared.errors import Conflict, DatasetError
from assay_shared.runs.run_folder import append_line, whole_lines, write_atomically
from assay_shared.runs.run_lock import LOCK, held
from assay_shared.types import FailureClass, Label

RECORD, REPORT, LOG, PLAN = "calibration.json", "report.md", "judgements.jsonl", "plan.json"
Winner = Literal["A", "B", "tie"]
#: The pass of a line about a pair.
PAIRS = "pairs"
_ANOTHER = "choose another folder with --output"


class JudgementLine(BaseModel):
    """A line of judgements.jsonl: a judgement of an example or of a pair, and its cost.

    `label`, or `winners` of a pair in both orders, is the verdict. Without a verdict, `failure` is
    set and `remark` is its message; otherwise `remark` is the judge's reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    judge: str
    pass_: str = Field(alias="pass")
    id: str
    gold: Label | None = None
    label: Label | None = None
    winners: tuple[Winner, Winner] | None = None
    remark: str = ""
    template: str | None = None
    failure: FailureClass | None = None
    num_requests: int = 0
    tokens: int = 0
    money: float = 0.0


class JudgementLog:
    """The lines of judgements.jsonl. Every line adds to the cost; the last verdict counts."""

    def __init__(self, path: Path) -> None:
        """Read the existing file, if any, except a last line cut short by a kill.

        Raises:
            DatasetError: a line is not a judgement; the message names the line.
        """
        self._path = path
        self._verdicts: dict[tuple[str, str, str], JudgementLine] = {}
        self._costs: dict[str, Expense] = {}
        lines = whole_lines(path) if path.exists() else ()
        for number, line in enumerate(lines, start=1):
            try:
                self._take(JudgementLine.model_validate_json(line))
            except ValidationError as error:
                message = error.errors()[0]["msg"]
                raise DatasetError(f"{path}:{number} is not a judgement: {message}") from None

    def add(self, asked: JudgementLine) -> None:
        """Append a line to the file."""
        append_line(self._path, json.dumps(_shown(asked), ensure_ascii=False))
        self._take(asked)

    def _take(self, asked: JudgementLine) -> None:
        if asked.failure is None:
            self._verdicts[asked.judge, asked.pass_, asked.id] = asked
        before = self.cost(asked.judge)
        self._costs[asked.judge] = Expense(
            num_requests=before.num_requests + asked.num_requests,
            tokens=before.tokens + asked.tokens,
            money=before.money + asked.money,
        )

    def find(self, judge: str, what: str, name: str) -> JudgementLine | None:
        """Return the verdict on an example or a pair in a pass, or None if there is none yet."""
        return self._verdicts.get((judge, what, name))

    @property
    def num_verdicts(self) -> int:
        return len(self._verdicts)

    def cost(self, judge: str) -> Expense:
        """Return the cost of all lines of a judge."""
        return self._costs.get(judge, Expense(num_requests=0, tokens=0, money=0.0))

    @property
    def money(self) -> float:
        """The cost of all lines."""
        return sum(one.money for one in self._costs.values())


def _shown(asked: JudgementLine) -> dict[str, JsonValue]:
    """Return the fields of a line: `winners` only for a pair, `gold` and `label` only without."""
    unused = {"gold", "label"} if asked.pass_ == PAIRS else {"winners"}
    return asked.model_dump(mode="json", by_alias=True, exclude=unused)


class CalibrationPlan(BaseModel):
    """The contents of plan.json: the examples, and each judge with its settings and prompts.

    Judgements of another plan cannot be added to the folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    examples: str
    judges: dict[str, dict[str, JsonValue]]


@contextmanager
def claimed(folder: Path, plan: CalibrationPlan) -> Iterator[JudgementLog]:
    """Hold the folder within the block; yield its log.

    The folder is new, or has judgements of the same plan and no report.

    Raises:
        Conflict: the folder has a report, other files, or judgements of another plan, or another
            process holds it.
    """
    _check(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        _check(folder)  # another process may have finished meanwhile
        path = folder / PLAN
        log = JudgementLog(folder / LOG)
        changed = _changed(path, plan) if path.exists() else ["no plan"]
        if changed and log.num_verdicts:
            raise Conflict(f"{folder} has judgements of {' and '.join(changed)}", hint=_ANOTHER)
        if changed:
            (folder / LOG).unlink(missing_ok=True)
            write_atomically(path, plan.model_dump_json(indent=2) + "\n")
            log = JudgementLog(folder / LOG)
        yield log


def _check(folder: Path) -> None:
    """Raise Conflict for a path with a report or with files of others."""
    is_ours = (folder / PLAN).exists() and not (folder / RECORD).exists()
    if not folder.exists() or is_ours:
        return
    if not folder.is_dir() or any(one.name != LOCK for one in folder.iterdir()):
        raise Conflict(f"{folder} exists", hint=_ANOTHER)


def _changed(path: Path, plan: CalibrationPlan) -> Sequence[str]:
    """Return the parts of a plan that differ from those in the file."""
    try:
        there = CalibrationPlan.model_validate_json(path.read_bytes())
    except ValidationError:
        return ["an unreadable plan"]
    changed = ["other examples"] if there.examples != plan.examples else []
    if there.judges != plan.judges:
        changed.append("another chain or prompt")
    return changed


def discard(folder: Path) -> None:
    """Remove a folder without verdicts, so that it is not in the way of the next start."""
    for name in (LOG, PLAN, LOCK):
        (folder / name).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
