"""Checks of a benchmark from its files alone, with a solver not used in making it."""

from collections.abc import Callable
from pathlib import Path

from assay_reward.or_debug.dataset.benchmark import (
    DATASET,
    MODELS,
    BenchmarkCell,
    digests_of,
    read_cells,
)
from assay_reward.or_debug.models import mps
from assay_reward.or_debug.models.instance import Instance, apply, load
from assay_reward.or_debug.models.pool import pool
from assay_reward.or_debug.models.solver import Engine, solve
from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.types import Wire

LIMIT_S = 60.0
#: Two engines' optima may differ by this share.
AGREEMENT = 1e-4
BATCH = 10


class CellCheck(Wire):
    """The number of instances of a cell with each promise kept, and the problems of the others."""

    name: str
    num_instances: int
    #: The file of the broken model equals the instance's model.
    num_same_model: int
    num_infeasible: int
    #: The fix gives a model with the stored optimum.
    num_restored: int
    #: The stored irreducible subset contains a mistake.
    num_explained: int
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not self.problems


class _Answers(Wire):
    is_same_model: bool
    is_infeasible: bool
    is_restored: bool
    is_explained: bool


OnProgress = Callable[[int], None]


def recheck(
    folder: Path, engine: Engine, num_processes: int, on_progress: OnProgress
) -> tuple[CellCheck, ...]:
    """Return a finding per cell of `folder`; `on_progress` gets the number of newly done instances.

    Raises: DatasetError for a folder without a manifest, or an unreadable file.
    """
    with pool(num_processes) as workers:
        found = []
        for report in read_cells(folder):
            path = folder / report.name
            instances = load(path / DATASET)
            arguments = [(path / MODELS, instance, engine) for instance in instances]
            answers: list[_Answers] = []
            for answer in workers.map(_ask, arguments, chunksize=BATCH):
                answers.append(answer)
                on_progress(1)
            found.append(_finding(folder, report, instances, answers))
    return tuple(found)


def _ask(argument: tuple[Path, Instance, Engine]) -> _Answers:
    models, instance, engine = argument
    broken = mps.read(models / f"{instance.id}.mps")
    try:
        best = solve(apply(instance.fix, broken), LIMIT_S, engine).objective
    except InvalidInput:
        best = None  # The fix does not fit the file.
    expected = instance.original_objective
    members = {*instance.iis.rows, *(bound.column for bound in instance.iis.bounds)}
    return _Answers(
        is_same_model=broken == instance.model,
        is_infeasible=solve(broken, LIMIT_S, engine).status == "infeasible",
        is_restored=best is not None
        and abs(best - expected) <= AGREEMENT * max(1.0, abs(expected)),
        is_explained=bool(members & set(instance.root_cause)),
    )


def _finding(
    folder: Path, report: BenchmarkCell, instances: tuple[Instance, ...], answers: list[_Answers]
) -> CellCheck:
    problems = [
        f"{instance.id}: {field}"
        for instance, answer in zip(instances, answers, strict=True)
        for field, holds in answer.model_dump().items()
        if not holds
    ]
    if len(instances) != report.num_instances:
        problems.append(f"{len(instances)} instances, the manifest says {report.num_instances}")
    if digests_of(folder / report.name) != report.digests:
        problems.append("the files differ from the digests in the manifest")
    return CellCheck(
        name=report.name,
        num_instances=len(instances),
        num_same_model=sum(answer.is_same_model for answer in answers),
        num_infeasible=sum(answer.is_infeasible for answer in answers),
        num_restored=sum(answer.is_restored for answer in answers),
        num_explained=sum(answer.is_explained for answer in answers),
        problems=tuple(problems),
    )


def must_be_sound(checks: tuple[CellCheck, ...]) -> None:
    """Raise DatasetError with the first problems, if there are any."""
    problems = [f"{check.name}: {problem}" for check in checks for problem in check.problems]
    if problems:
        shown = "; ".join(problems[:5])
        raise DatasetError(f"{len(problems)} problems: {shown}", field="folder")
