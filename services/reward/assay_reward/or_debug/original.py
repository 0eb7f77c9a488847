"""The published sample sets of OR-Debug-Bench: a `dataset.json` beside a folder of MPS files.

Their rows have names that tell what is wrong, and stand in an order that does; `problem_nl` names
the kind of mistake. None of this is kept but the mapping of names.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from assay_reward.or_debug import mps
from assay_reward.or_debug.disguise import Disguised, disguise
from assay_reward.or_debug.draft import Draft
from assay_reward.or_debug.iis import irreducible, is_irreducible
from assay_reward.or_debug.instance import (
    Difficulty,
    DropRow,
    Edit,
    Instance,
    SetColumn,
    SetRow,
    apply,
)
from assay_reward.or_debug.model import Model
from assay_reward.or_debug.solver import is_feasible, solve
from assay_shared.errors import DatasetError, InvalidInput

LIMIT_S = 30.0
#: The files hold more digits than ours do, and their optima come from another solver.
AGREEMENT = 1e-4
TURNED = re.compile(r"Change (\w+) from ([<>]=) back to ([<>]=)")
RETYPED = re.compile(r"Change (\w+) back to INTEGER with UB=([\d.]+), remove (\w+)")
RESCALED = re.compile(r"Change coefficient of (\w+) in (\w+) from [-\d.]+ back to (-?[\d.]+)")
REMOVED = re.compile(
    r"Remove (?:chain constraints:|contradicting constraint|BOTH constraints:) (.+)"
)
HIDDEN = re.compile(r"The root cause is constraint '(\w+)'")


class Problem(BaseModel):
    """What is read of an entry; the rest of it tells nothing more."""

    problem_id: str
    model_file: str
    error_type: str = Field(pattern=r"^[A-I]$")
    ground_truth_fix: str
    original_objective: float
    difficulty: Difficulty
    problem_type: Literal["lp", "mip"]


class Problems(BaseModel):
    """A `dataset.json`."""

    problems: list[Problem] = Field(min_length=1)


@dataclass(frozen=True)
class Exceptional:
    """A problem that is not all it should be, and why."""

    problem_id: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """All problems but those that cannot be used at all, and every exception to the rules."""

    instances: tuple[Instance, ...]
    exceptions: tuple[Exceptional, ...]


def load(folder: Path) -> Loaded:
    """The problems in `folder`, under neutral names, their rows and columns shuffled.

    Each has an irreducible infeasible subset of ours, confirmed by taking out each member. What
    goes against a problem's own claims is an exception: the problem stays, with `tags["is_sound"]`
    at "no". What is feasible, or has a fix that cannot be read, is left out, and an exception too.

    Raises: DatasetError for a folder or file that cannot be read.
    """
    path = folder / "dataset.json"
    if not path.is_file():
        raise DatasetError("no such file", field=str(path))
    try:
        problems = Problems.model_validate_json(path.read_text()).problems
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise DatasetError(f"{where}: {first['msg']}", field=str(path)) from error
    instances, exceptions = [], []
    for problem in problems:
        try:
            instance, doubts = _instance(folder, problem)
        except InvalidInput as error:
            exceptions.append(Exceptional(problem.problem_id, f"left out: {error}"))
            continue
        instances.append(instance)
        exceptions += [Exceptional(problem.problem_id, doubt) for doubt in doubts]
    return Loaded(tuple(instances), tuple(exceptions))


def _instance(folder: Path, problem: Problem) -> tuple[Instance, list[str]]:
    """Raises: InvalidInput for a problem that is none."""
    broken = mps.read(folder / problem.model_file)
    fix = read_fix(problem.ground_truth_fix, broken)
    blamed = tuple(_name(edit) for edit in fix)
    draft = Draft(apply(fix, broken), broken, blamed, fix)
    disguised = disguise(Random(problem.problem_id), draft)
    # Raises where the model is feasible.
    found = irreducible(disguised.broken, LIMIT_S)
    doubts = _doubts(problem, disguised)
    if not is_irreducible(disguised.broken, found.rows, found.bounds, LIMIT_S):
        doubts.append("no subset is proved to be irreducible")
    repairs = [row for row in found.rows if is_feasible(disguised.broken.without_row(row), LIMIT_S)]
    instance = Instance(
        id=problem.problem_id,
        error_type=problem.error_type,
        difficulty=problem.difficulty,
        model=disguised.broken,
        original_objective=problem.original_objective,
        root_cause=disguised.root_cause,
        fix=disguised.fix,
        iis=found,
        num_single_repairs=len(repairs),
        names=disguised.names,
        tags={"kind": problem.problem_type, "is_sound": "no" if doubts else "yes"},
    )
    return instance, doubts


def _doubts(problem: Problem, disguised: Disguised) -> list[str]:
    """What the problem claims of its fix and does not keep."""
    best = solve(disguised.original(), LIMIT_S)
    if best.objective is None:
        return [f"the fix leaves the model {best.status}"]
    expected = problem.original_objective
    if abs(best.objective - expected) > AGREEMENT * max(1.0, abs(expected)):
        return [f"the fix gives {best.objective:.6g}, the original had {expected:.6g}"]
    return []


def _name(edit: Edit) -> str:
    if isinstance(edit, SetRow):
        return edit.row.name
    return edit.column.name if isinstance(edit, SetColumn) else edit.name


def read_fix(text: str, model: Model) -> tuple[Edit, ...]:
    """The edits that a sentence asks for. Raises: InvalidInput for one that is not known."""
    if match := TURNED.fullmatch(text):
        row = model.row(match[1])
        lower, upper = (row.upper, math.inf) if match[3] == ">=" else (-math.inf, row.lower)
        return (SetRow(row=row.model_copy(update={"lower": lower, "upper": upper})),)
    if match := RETYPED.fullmatch(text):
        changed = {"is_integer": True, "upper": float(match[2])}
        column = model.column(match[1]).model_copy(update=changed)
        return (SetColumn(column=column), DropRow(name=match[3]))
    if match := RESCALED.fullmatch(text):
        row = model.row(match[2])
        terms = row.coefficients | {match[1]: float(match[3])}
        return (SetRow(row=row.model_copy(update={"coefficients": terms})),)
    if match := HIDDEN.match(text):
        return (DropRow(name=match[1]),)
    if match := REMOVED.match(text):
        names = re.split(r", | AND ", match[1].partition(". ")[0])
        return tuple(DropRow(name=name) for name in names)
    raise InvalidInput(f"a fix of an unknown form: {text}", field="ground_truth_fix")
