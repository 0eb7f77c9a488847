"""A published `dataset.json`: its entries, and errors for wrong paths."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, FiniteFloat, JsonValue, ValidationError

from assay_reward.or_debug.dataset.benchmark import DATASET, MANIFEST
from assay_reward.or_debug.models import files
from assay_reward.or_debug.models.instance import Difficulty
from assay_shared.errors import DatasetError

MAX_BYTES = 64 * 2**20
MAX_FIX = 4_000
SHAPE = "a published set is a folder of dataset.json and the MPS files that it names"

#: Used as a file name.
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
ErrorType = Literal["A", "B", "C", "D", "E", "F", "G", "H", "I"]


class PublishedProblem(BaseModel):
    """An entry: a model, and the claims about it.

    `problem_nl` and `error_description` are never read, because they reveal the mistake.
    """

    problem_id: Identifier
    model_file: str = Field(min_length=1, max_length=400)
    error_type: ErrorType
    ground_truth_fix: str = Field(max_length=MAX_FIX)
    original_objective: FiniteFloat
    difficulty: Difficulty
    problem_type: Literal["lp", "mip"]
    #: The claimed irreducible infeasible subset; a column stands for both its bounds.
    iis_constraints: tuple[str, ...] = ()
    iis_bounds: tuple[str, ...] = ()


class Problems(BaseModel):
    """The content of a `dataset.json`."""

    problems: list[PublishedProblem] = Field(min_length=1)


def folder_of(given: Path) -> Path:
    """Return the folder of a published set, from the folder or from its dataset.json.

    Raises: DatasetError with a description of the wrong path.
    """
    if not given.exists():
        raise DatasetError("no such file or folder", field=str(given), hint=SHAPE)
    if given.is_file():
        if given.suffix == ".gz":
            raise DatasetError("packed with gzip", field=str(given), hint="gunzip it")
        if given.name != DATASET:
            raise DatasetError(f"not a {DATASET}", field=str(given), hint=SHAPE)
        return given.parent
    if (given / DATASET).is_file():
        return given
    if (given / MANIFEST).is_file():
        told = "a benchmark in our own form"
        raise DatasetError(
            told, field=str(given), hint="check, evaluate or demonstrate it as it is"
        )
    inside = sorted(path.parent.name for path in given.glob(f"*/{DATASET}"))
    hint = f"there is one in {', '.join(inside[:8])}" if inside else SHAPE
    raise DatasetError(f"there is no {DATASET}", field=str(given), hint=hint)


def read_problems(folder: Path) -> list[PublishedProblem]:
    """Return the entries of a set; all their model files exist.

    Raises: DatasetError with the wrong field, or the missing files.
    """
    path = folder / DATASET
    try:
        problems = Problems.model_validate(_json(path)).problems
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise DatasetError(f"{where}: {first['msg']}", field=str(path)) from None
    counts = Counter(problem.problem_id for problem in problems)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise DatasetError(f"duplicate problem ids: {', '.join(twice[:5])}", field=str(path))
    for problem in problems:
        _check_within(folder, problem, path)
    missing = [one.model_file for one in problems if not (folder / one.model_file).is_file()]
    if missing:
        told = f"{len(missing)} of {len(problems)} MPS files are missing"
        hint = "they must be in the folder of dataset.json"
        raise DatasetError(f"{told}, such as {missing[0]}", field=str(folder), hint=hint)
    return problems


def _check_within(folder: Path, problem: PublishedProblem, path: Path) -> None:
    """Raise DatasetError for a model file outside the folder, or of another format."""
    file = Path(problem.model_file)
    if file.is_absolute() or ".." in file.parts or file.suffix.lower() != ".mps":
        told = f"model_file of {problem.problem_id} is {problem.model_file[:80]!r}"
        raise DatasetError(told, field=str(path), hint="an .mps file within the folder")


def _json(path: Path) -> JsonValue:
    try:
        read: JsonValue = json.loads(files.read(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"not JSON: {error}", field=str(path)) from None
    if isinstance(read, dict) and "instances" in read and "problems" not in read:
        told = "instances in our own form, not a published set"
        raise DatasetError(told, field=str(path), hint="give their folder to check or evaluate")
    return read
