"""Conversion of published problems to instances, and checks of their claims."""

import time
from pathlib import Path
from random import Random
from typing import Literal

from assay_reward.or_debug.dataset.disguise import Disguised, disguise
from assay_reward.or_debug.dataset.draft import Draft
from assay_reward.or_debug.dataset.tasks import to_task
from assay_reward.or_debug.episode.metrics import claim_irreducible, named_members
from assay_reward.or_debug.models import mps
from assay_reward.or_debug.models.iis import Irreducible, irreducible, is_irreducible, part
from assay_reward.or_debug.models.instance import Edit, Instance, SetColumn, SetRow, apply
from assay_reward.or_debug.models.model import OptimizationModel
from assay_reward.or_debug.models.solver import SolveOutcome, is_feasible, solve
from assay_reward.or_debug.published.fixes import read_fix
from assay_reward.or_debug.published.problems import PublishedProblem
from assay_shared.errors import InfrastructureError, InvalidInput, TimedOut
from assay_shared.types import Role, Wire

#: Time limits for one question to a solver, and for all questions about one problem.
LIMIT_S, PROBLEM_LIMIT_S = 30.0, 120.0
#: Tolerance, because the files hold more digits than ours and optima come from another solver.
AGREEMENT = 1e-4

Subset = Literal["irreducible", "reducible", "feasible", "unknown"]


class CheckClock:
    """The time limit of a problem."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + PROBLEM_LIMIT_S

    def left(self) -> float:
        """Return the seconds for the next question. Raises: TimedOut if none are left."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimedOut(f"one problem takes more than {PROBLEM_LIMIT_S:g} s")
        return min(left, LIMIT_S)


class Checked(Wire):
    """A problem's instance, and the findings about its claims.

    The problem is sound if `faults` is empty. Unsound problems have an instance too, if possible.
    `published_iis` is the kind of the published subset: `unknown` if it names a row or column not
    in the model, or if no solver decided in time. `single_fix` is true if one edit of several is
    enough to restore the optimum.
    """

    problem_id: str
    error_type: str
    difficulty: str
    instance: Instance | None = None
    is_read: bool = False
    is_infeasible: bool = False
    is_fix_read: bool = False
    is_feasible_after: bool = False
    is_restored: bool = False
    published_iis: Subset = "unknown"
    single_fix: bool = False
    faults: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        return not self.faults


def check(folder: Path, problem: PublishedProblem, name: str) -> Checked:
    """Make an instance of `problem` under neutral names, and return it with the checked claims.

    `name` is the set's name, because different sets use the same ids of problems. Rows and columns
    are shuffled by the problem's id. A broken claim is listed in `faults`, not raised.
    """
    found = Checked(
        problem_id=problem.problem_id,
        error_type=problem.error_type,
        difficulty=problem.difficulty,
    )
    clock = CheckClock()
    try:
        broken = mps.as_written(mps.read(folder / problem.model_file))
        found = found.model_copy(update={"is_read": True})
        if is_feasible(broken, clock.left()):
            return _at_fault(found, "the model is feasible as published")
        subset = _kind_of_subset(problem, broken, clock)
        found = found.model_copy(update={"is_infeasible": True, "published_iis": subset})
        fix = read_fix(problem.ground_truth_fix, broken)
        found = found.model_copy(update={"is_fix_read": True})
        return _repaired(found, problem, broken, fix, name, clock)
    except (InvalidInput, InfrastructureError) as error:
        return _at_fault(found, str(error))


def _repaired(
    found: Checked,
    problem: PublishedProblem,
    broken: OptimizationModel,
    fix: tuple[Edit, ...],
    name: str,
    clock: CheckClock,
) -> Checked:
    best = solve(apply(fix, broken), clock.left())
    is_restored = _is_optimum(best, problem)
    found = found.model_copy(
        update={
            "is_feasible_after": best.status != "infeasible",
            "is_restored": is_restored,
            "single_fix": is_restored and _one_is_enough(fix, broken, problem, clock),
        }
    )
    if not best.is_optimal:
        return _at_fault(found, f"the model is {best.status} after the published fix")
    if not is_restored:
        stated = f"{problem.original_objective:.8g}"
        found = _at_fault(
            found, f"the published fix gives {best.objective:.8g}, the stated optimum is {stated}"
        )
    blamed = tuple(dict.fromkeys(_name(edit) for edit in fix))
    draft = Draft(apply(fix, broken), broken, blamed, fix)
    disguised = disguise(Random(problem.problem_id), draft)
    subset = irreducible(disguised.broken, clock.left())
    if not is_irreducible(disguised.broken, subset.rows, subset.bounds, clock.left()):
        found = _at_fault(found, "no subset is proved to be irreducible")
    instance = _instance(problem, disguised, subset, name, clock)
    to_task(instance, Role.TEST)  # raises if the prompt would reveal the mistake
    return found.model_copy(update={"instance": instance})


def _instance(
    problem: PublishedProblem,
    disguised: Disguised,
    subset: Irreducible,
    name: str,
    clock: CheckClock,
) -> Instance:
    rows = subset.rows
    repairs = [row for row in rows if is_feasible(disguised.broken.without_row(row), clock.left())]
    return Instance(
        id=f"{name}.{problem.problem_id}",
        error_type=problem.error_type,
        difficulty=problem.difficulty,
        model=disguised.broken,
        original_objective=problem.original_objective,
        root_cause=disguised.root_cause,
        fix=disguised.fix,
        iis=subset,
        num_single_repairs=len(repairs),
        names=disguised.names,
        tags={"kind": problem.problem_type, "set": name},
    )


def _at_fault(found: Checked, fault: str) -> Checked:
    return found.model_copy(update={"faults": (*found.faults, fault)})


def _is_optimum(best: SolveOutcome, problem: PublishedProblem) -> bool:
    expected = problem.original_objective
    return best.objective is not None and abs(best.objective - expected) <= AGREEMENT * max(
        1.0, abs(expected)
    )


def _one_is_enough(
    fix: tuple[Edit, ...], broken: OptimizationModel, problem: PublishedProblem, clock: CheckClock
) -> bool:
    """Return True if a single edit of several gives the stated optimum."""
    return len(fix) > 1 and any(
        _is_optimum(solve(apply((edit,), broken), clock.left()), problem) for edit in fix
    )


def _kind_of_subset(
    problem: PublishedProblem, model: OptimizationModel, clock: CheckClock
) -> Subset:
    rows, columns = problem.iis_constraints, problem.iis_bounds
    known = set(rows) <= model.rows_by_name.keys() and set(columns) <= model.columns_by_name.keys()
    if not known or not (rows or columns):
        return "unknown"
    claim = (*rows, *columns)
    found = claim_irreducible(model, claim, clock.left())
    if found is None:
        return "unknown"
    if found:
        return "irreducible"
    return (
        "feasible"
        if is_feasible(part(model, named_members(model, claim)), clock.left())
        else "reducible"
    )


def _name(edit: Edit) -> str:
    if isinstance(edit, SetRow):
        return edit.row.name
    return edit.column.name if isinstance(edit, SetColumn) else edit.name
