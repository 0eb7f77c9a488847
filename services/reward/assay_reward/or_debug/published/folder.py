"""Import of a published set as a benchmark; unsound problems are left out and named."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import repeat
from pathlib import Path

from assay_reward.or_debug.dataset import benchmark, tasks
from assay_reward.or_debug.models.instance import DIFFICULTIES, Instance
from assay_reward.or_debug.models.pool import pool
from assay_reward.or_debug.published.checking import Checked, check
from assay_reward.or_debug.published.problems import PublishedProblem, folder_of, read_problems
from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task, Wire

BATCH = 10


class Claims(Wire):
    """The number of problems of a type for each true claim. `num_sound` are in the benchmark."""

    error_type: str
    num_problems: int
    num_read: int
    num_infeasible: int
    num_fix_read: int
    num_feasible_after: int
    num_restored: int
    #: Number of irreducible published subsets, and of other subsets by kind.
    num_iis_irreducible: int
    other_subsets: dict[str, int]
    #: Number of fixes with several edits, though one edit alone gives the stated optimum.
    num_single_fix: int
    num_sound: int


class Imported(Wire):
    """The manifest: the source of the benchmark, and the reasons for leaving out problems."""

    source: str
    source_digest: str
    role: Role | None
    seed: int
    max_turns: int
    shown: tasks.Shown
    versions: dict[str, str]
    num_problems: int
    num_instances: int
    claims: tuple[Claims, ...]
    left_out: dict[str, str]
    cells: tuple[benchmark.BenchmarkCell, ...]
    #: SHA-256 of all digests of the cells.
    digest: str


@dataclass(frozen=True)
class ConversionOrder:
    """An order for an import. Tasks get `role`; without it, each cell is split among all roles."""

    source: Path
    role: Role | None = Role.TEST
    seed: int = 0
    max_turns: int = tasks.MAX_TURNS
    shown: tasks.Shown = tasks.Shown.RULES
    num_processes: int = 1


OnProgress = Callable[[int, int], None]


def import_set(output: Path, order: ConversionOrder, on_progress: OnProgress) -> Imported:
    """Check every problem of a published set, and write the sound problems to `output`.

    `on_progress` gets the number of finished problems and the number of all problems.

    Raises: DatasetError for a source other than a published set, or without a sound problem;
    InvalidInput for an output with content.
    """
    source = folder_of(order.source)
    problems = read_problems(source)
    benchmark.must_be_new(output)
    output.mkdir(parents=True, exist_ok=True)
    found = check_set(source, problems, order.num_processes, on_progress)
    left_out = {one.problem_id: "; ".join(one.faults) for one in found if not one.is_sound}
    sound = [one.instance for one in found if one.is_sound and one.instance is not None]
    if not sound:
        first = next(iter(left_out.items()))
        told = f"no problem of {len(found)} is sound; {first[0]}: {first[1]}"
        raise DatasetError(told, field=str(source))
    cells = tuple(_write(output, cell, order) for cell in _by_cell(sound))
    manifest = Imported(
        source=set_name(source),
        source_digest=hashlib.sha256((source / benchmark.DATASET).read_bytes()).hexdigest(),
        role=order.role,
        seed=order.seed,
        max_turns=order.max_turns,
        shown=order.shown,
        versions={"highspy": version("highspy")},
        num_problems=len(found),
        num_instances=len(sound),
        claims=claims_of(found),
        left_out=left_out,
        cells=cells,
        digest=benchmark.digest_of(cells),
    )
    benchmark.write_manifest(output, manifest)
    return manifest


def check_set(
    source: Path, problems: Sequence[PublishedProblem], num_processes: int, on_progress: OnProgress
) -> list[Checked]:
    """Return every problem of the set in `source` with its instance and findings, in order."""
    name = set_name(source)
    found = []
    with pool(num_processes) as workers:
        answers = workers.map(check, repeat(source), problems, repeat(name), chunksize=BATCH)
        for answer in answers:
            found.append(answer)
            on_progress(len(found), len(problems))
    return found


def set_name(source: Path) -> str:
    """Return the folder's name, made fit for an id."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", source.resolve().name).strip("_")[:60] or "set"


def claims_of(found: Iterable[Checked]) -> tuple[Claims, ...]:
    """Return the counted findings by error type."""
    by_type: dict[str, list[Checked]] = {}
    for one in found:
        by_type.setdefault(one.error_type, []).append(one)
    return tuple(_claims(error_type, by_type[error_type]) for error_type in sorted(by_type))


def _claims(error_type: str, found: Sequence[Checked]) -> Claims:
    kinds = [one.published_iis for one in found]
    others = sorted(set(kinds) - {"irreducible"})
    return Claims(
        error_type=error_type,
        num_problems=len(found),
        num_read=sum(one.is_read for one in found),
        num_infeasible=sum(one.is_infeasible for one in found),
        num_fix_read=sum(one.is_fix_read for one in found),
        num_feasible_after=sum(one.is_feasible_after for one in found),
        num_restored=sum(one.is_restored for one in found),
        num_iis_irreducible=kinds.count("irreducible"),
        other_subsets={kind: kinds.count(kind) for kind in others},
        num_single_fix=sum(one.single_fix for one in found),
        num_sound=sum(one.is_sound for one in found),
    )


def _by_cell(instances: Iterable[Instance]) -> list[list[Instance]]:
    """Return the instances of each error type and difficulty, easy instances first."""
    cells: dict[tuple[str, int], list[Instance]] = {}
    for one in instances:
        key = (one.error_type, DIFFICULTIES.index(one.difficulty))
        cells.setdefault(key, []).append(one)
    return [cells[key] for key in sorted(cells)]


def _write(
    output: Path, instances: Sequence[Instance], order: ConversionOrder
) -> benchmark.BenchmarkCell:
    name = f"type_{instances[0].error_type}_{instances[0].difficulty}"
    digests = benchmark.write_cell(output / name, instances, _tasks(instances, order))
    return benchmark.BenchmarkCell(name=name, num_instances=len(instances), digests=digests)


def _tasks(instances: Sequence[Instance], order: ConversionOrder) -> list[Task]:
    if order.role is None:
        return tasks.of_cell(instances, order.seed, order.max_turns, order.shown)
    role = order.role
    return [tasks.to_task(one, role, order.max_turns, order.shown) for one in instances]
