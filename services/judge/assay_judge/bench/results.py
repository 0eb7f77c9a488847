"""The file results.jsonl: a line for each judged or failed pair."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from assay_judge.bench.names import Reason
from assay_judge.bench.sets import Difficulty, LabelledPair
from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import append_line, whole_lines
from assay_shared.types import Failure, FailureClass


class Result(BaseModel):
    """The result of a pair in both orders, under one of the two prompts.

    `choices` are the indices of the chosen answers, first with the first answer in the first place,
    then with it in the second; null for a tie. Empty if the pair failed in one order or in both.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    row: str
    subset: str
    difficulty: Difficulty | None = None
    styles: tuple[int, int] | None = None
    reason: Reason
    better: int
    choices: tuple[int | None, ...] = ()
    judge: str | None = None
    template: str | None = None
    remark: str = ""
    failure: Failure | None = None
    #: Requests for this pair in both orders, failed requests included.
    num_requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: float = 0.0

    @model_validator(mode="after")
    def _judged_or_failed(self) -> "Result":
        if (self.failure is None) != (len(self.choices) == 2):
            raise ValueError("a result has two choices, or a failure")
        return self

    @property
    def is_asked(self) -> bool:
        """False for a pair beyond the ceiling: the judge was not asked about it."""
        return self.failure is None or self.failure.failure_class is not FailureClass.BUDGET


class BenchResults:
    """The lines of results.jsonl. A pair's last line counts; every line adds to the cost."""

    def __init__(self, path: Path) -> None:
        """Read the existing file, if any.

        A last line cut short by a kill does not count: its pair is asked again.

        Raises:
            DatasetError: a line is not a result; the message names the line.
        """
        self._path = path
        self._lines: list[Result] = []
        self._latest: dict[tuple[str, Reason], Result] = {}
        lines = (line for line in whole_lines(path) if line != b"\n") if path.exists() else ()
        for number, line in enumerate(lines, start=1):
            try:
                self._take(Result.model_validate_json(line))
            except ValidationError as error:
                message = error.errors()[0]["msg"]
                raise DatasetError(f"{path}:{number} is not a result: {message}") from None

    def add(self, result: Result) -> None:
        """Append a result to the file."""
        append_line(self._path, result.model_dump_json())
        self._take(result)

    def _take(self, result: Result) -> None:
        self._lines.append(result)
        self._latest[result.key, result.reason] = result

    @property
    def money(self) -> float:
        """The cost of all lines."""
        return sum(one.money for one in self._lines)

    def asked(self, pairs: Sequence[LabelledPair], reason: Reason) -> list[Result]:
        """Return every line about the pairs, including lines replaced by a later line."""
        keys = {pair.key for pair in pairs}
        return [one for one in self._lines if one.reason is reason and one.key in keys]

    def of(self, pairs: Sequence[LabelledPair], reason: Reason) -> list[Result]:
        """Return the latest results of the asked pairs, in the pairs' order."""
        found = (self._latest.get((pair.key, reason)) for pair in pairs)
        return [one for one in found if one is not None and one.is_asked]

    def is_judged(self, pair: LabelledPair, reason: Reason) -> bool:
        found = self._latest.get((pair.key, reason))
        return found is not None and found.failure is None
