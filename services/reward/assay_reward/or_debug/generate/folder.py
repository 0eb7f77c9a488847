"""Generation of a benchmark on disk: a folder per cell, and a manifest."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from pydantic import Field, JsonValue

from assay_reward.or_debug.dataset import benchmark, tasks
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.making import MAX_ATTEMPTS, MadeInstance, make
from assay_reward.or_debug.models.instance import Instance
from assay_reward.or_debug.models.pool import pool
from assay_reward.or_debug.models.solver import Engine
from assay_shared.errors import AssayError, DatasetError
from assay_shared.types import Wire

#: Number of instances in a batch; a process reports after each batch.
BATCH = 5


class CellReport(benchmark.BenchmarkCell):
    """Content of a cell, and the number of samples rejected on the way."""

    error_type: str
    difficulty: str
    num_mistakes: int
    shape: dict[str, JsonValue]
    num_lp: int
    num_mip: int
    #: Number of instances without another row to blame for any of their mistakes.
    num_identifiable: int
    #: Number of instances by the number of rows whose removal alone is a repair.
    single_repairs: dict[str, int]
    #: Least, median and most.
    num_rows: tuple[float, float, float]
    num_columns: tuple[float, float, float]
    num_iis_rows: tuple[float, float, float]
    #: Number of rejected samples, by reason.
    rejected: dict[str, int]


class Manifest(Wire):
    """Content of a folder, and the inputs to make it again, to the byte."""

    seed: int
    per_cell: int
    max_turns: int
    shown: tasks.Shown
    confirmed_by: str | None
    versions: dict[str, str]
    num_instances: int
    cells: tuple[CellReport, ...]
    #: SHA-256 of all digests above.
    digest: str = Field(default="")


@dataclass(frozen=True)
class GenerationOrder:
    """An order for a benchmark. `confirm` names a second engine to confirm each instance."""

    cells: tuple[CellPlan, ...]
    per_cell: int
    seed: int
    confirm: Engine | None
    max_turns: int
    num_processes: int
    #: Content of prompts.
    shown: tasks.Shown = tasks.Shown.RULES
    #: Maximum number of samples for an instance.
    max_attempts: int = MAX_ATTEMPTS


#: Called with the cell and the number of instances made for it.
OnProgress = Callable[[CellPlan, int], None]


def generate(output: Path, order: GenerationOrder, on_progress: OnProgress) -> Manifest:
    """Make all instances of `order`, write them to `output`, and return the manifest.

    The same order gives the same bytes, with any number of processes.

    Raises: InvalidInput for a folder with content; DatasetError, with name and counts, for a cell
    left incomplete.
    """
    benchmark.must_be_new(output)
    made = _make_all(order, on_progress)
    reports = tuple(_write(output / cell.name, cell, made[cell], order) for cell in order.cells)
    manifest = Manifest(
        seed=order.seed,
        per_cell=order.per_cell,
        max_turns=order.max_turns,
        shown=order.shown,
        confirmed_by=order.confirm,
        versions=_versions(order.confirm),
        num_instances=sum(report.num_instances for report in reports),
        cells=reports,
        digest=benchmark.digest_of(reports),
    )
    benchmark.write_manifest(output, manifest)
    return manifest


def _make_all(
    order: GenerationOrder, on_progress: OnProgress
) -> dict[CellPlan, list[MadeInstance]]:
    made: dict[CellPlan, list[MadeInstance]] = {cell: [] for cell in order.cells}
    with pool(order.num_processes) as workers:
        batches: list[tuple[CellPlan, Future[list[MadeInstance]]]] = []
        for cell in order.cells:
            for first in range(0, order.per_cell, BATCH):
                numbers = range(first, min(first + BATCH, order.per_cell))
                future = workers.submit(_make_batch, order, cell, numbers)
                batches.append((cell, future))
        try:
            for cell, future in batches:
                made[cell] += future.result()
                on_progress(cell, len(made[cell]))
        except AssayError as error:
            workers.shutdown(cancel_futures=True)
            if not isinstance(error, DatasetError):
                raise
            filled = ", ".join(
                f"{cell.name}: {len(made[cell])} of {order.per_cell}" for cell in order.cells
            )
            raise DatasetError(f"{error.message}; {filled}", field=error.field) from error
    return made


def _make_batch(order: GenerationOrder, cell: CellPlan, numbers: range) -> list[MadeInstance]:
    return [make(order.seed, cell, number, order.confirm, order.max_attempts) for number in numbers]


def _write(
    folder: Path, cell: CellPlan, made: Sequence[MadeInstance], order: GenerationOrder
) -> CellReport:
    instances = [one.instance for one in made]
    digests = benchmark.write_cell(
        folder, instances, tasks.of_cell(instances, order.seed, order.max_turns, order.shown)
    )
    rejected = sum((one.rejected for one in made), Counter[str]())
    return _report(cell, instances, rejected, digests)


def _report(
    cell: CellPlan, instances: Sequence[Instance], rejected: Counter[str], digests: dict[str, str]
) -> CellReport:
    num_mip = sum(instance.model.is_mip for instance in instances)
    single = Counter(str(instance.num_single_repairs) for instance in instances)
    return CellReport(
        name=cell.name,
        error_type=cell.error_type,
        difficulty=cell.difficulty,
        num_mistakes=cell.num_mistakes,
        shape=asdict(cell.shape),
        num_instances=len(instances),
        num_lp=len(instances) - num_mip,
        num_mip=num_mip,
        num_identifiable=sum(one.tags["is_identifiable"] == "yes" for one in instances),
        single_repairs=dict(sorted(single.items())),
        num_rows=_spread([len(instance.model.rows) for instance in instances]),
        num_columns=_spread([len(instance.model.columns) for instance in instances]),
        num_iis_rows=_spread([len(instance.iis.rows) for instance in instances]),
        rejected=dict(sorted(rejected.items())),
        digests=digests,
    )


def _spread(values: Sequence[int]) -> tuple[float, float, float]:
    return min(values), median(values), max(values)


def _versions(confirm: Engine | None) -> dict[str, str]:
    packages = {"highs": "highspy", "scip": "pyscipopt", "gurobi": "gurobipy"}
    used = ["highspy", *([packages[confirm]] if confirm else [])]
    return {name: version(name) for name in dict.fromkeys(used)}
