"""Debug optimisation models: generate, import, check, demonstrate, evaluate."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from assay_reward.or_debug.evaluate.command import evaluate
from assay_reward.or_debug.study.command import report

if TYPE_CHECKING:
    from assay_reward.or_debug.dataset.recheck import CellCheck
    from assay_reward.or_debug.generate.cells import CellPlan
    from assay_reward.or_debug.generate.folder import Manifest
    from assay_reward.or_debug.models.solver import Engine
    from assay_reward.or_debug.published.folder import Imported
    from assay_shared.types import Role

#: Enough for every generated model.
_SOLVE_TIMEOUT_S = 10.0

app = typer.Typer(
    help="Make infeasible optimisation models, and let a policy repair them.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(evaluate)
app.command()(report)
MaxTurns = Annotated[int, typer.Option(min=1, max=64, help="Replies in a task.")]
Shows = Annotated[
    str, typer.Option(help="In prompts: rules (and the model), model (alone), or only its size.")
]
Processes = Annotated[
    int | None, typer.Option(min=1, max=256, help="Processes; as many as there are cores.")
]


@app.command()
def generate(
    output: Annotated[Path, typer.Option(help="A new folder to write to.")],
    per_cell: Annotated[int, typer.Option(min=1, max=9999, help="Instances of each cell.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
    types: Annotated[str, typer.Option(help="Error types, such as A,D.")] = "A,B,C,D",
    difficulties: Annotated[str, typer.Option(help="Such as easy,hard.")] = "easy,medium,hard",
    confirm: Annotated[
        str, typer.Option(help="A second engine to confirm each instance, or none.")
    ] = "scip",
    max_turns: MaxTurns = 8,
    shown: Shows = "rules",
    max_attempts: Annotated[int, typer.Option(min=1, help="Attempts to make an instance.")] = 200,
    processes: Processes = None,
) -> None:
    """Generate instances of every error type and difficulty, each one checked."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    from assay_reward.or_debug.dataset.tasks import Shown
    from assay_reward.or_debug.generate import folder

    order = folder.GenerationOrder(
        cells=_cells(types, difficulties),
        per_cell=per_cell,
        seed=seed,
        confirm=None if confirm == "none" else _engine(confirm, "confirm"),
        max_turns=max_turns,
        num_processes=processes or len(os.sched_getaffinity(0)),
        shown=Shown(_one_of(shown, tuple(Shown), "shown")),
        max_attempts=max_attempts,
    )
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars = {cell: progress.add_task(cell.name, total=per_cell) for cell in order.cells}
        manifest = folder.generate(
            output, order, lambda cell, done: progress.update(bars[cell], completed=done)
        )
    _show(_table_of_cells(manifest))
    print(f"{manifest.num_instances} instances in {output}, digest {manifest.digest[:16]}")


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="A published set: dataset.json and MPS files.")],
    output: Annotated[Path, typer.Option(help="A new folder to write to.")],
    role: Annotated[
        str, typer.Option(help="Role of all tasks: test, train or validation; or split.")
    ] = "test",
    seed: Annotated[int, typer.Option(help="Seed of the split into roles.")] = 0,
    max_turns: MaxTurns = 8,
    shown: Shows = "rules",
    processes: Processes = None,
) -> None:
    """Import a published set: check its claims, and write its sound problems as tasks."""
    from rich.console import Console
    from rich.progress import Progress

    from assay_reward.or_debug.dataset.tasks import Shown
    from assay_reward.or_debug.published.folder import ConversionOrder, import_set

    order = ConversionOrder(
        source=source,
        role=_role(role),
        seed=seed,
        max_turns=max_turns,
        shown=Shown(_one_of(shown, tuple(Shown), "shown")),
        num_processes=processes or len(os.sched_getaffinity(0)),
    )
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("problems", total=None)
        made = import_set(
            output, order, lambda done, total: progress.update(bar, completed=done, total=total)
        )
    _show(_table_of_claims(made))
    for problem, reason in made.left_out.items():
        print(f"left out: {problem}: {reason}")
    print(f"{made.num_instances} of {made.num_problems} problems in {output}", end=", ")
    print(f"digest {made.digest[:16]}")


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="A folder of `generate` or `import`.")],
    engine: Annotated[str, typer.Option(help="highs, scip or gurobi.")] = "scip",
    processes: Processes = None,
) -> None:
    """Check a benchmark from its files, with another solver."""
    from rich.console import Console
    from rich.progress import Progress

    from assay_reward.or_debug.dataset import recheck
    from assay_reward.or_debug.dataset.benchmark import read_cells

    total = sum(cell.num_instances for cell in read_cells(folder))
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("instances", total=total)
        found = recheck.recheck(
            folder,
            _engine(engine, "engine"),
            processes or len(os.sched_getaffinity(0)),
            lambda done: progress.advance(bar, done),
        )
    _show(_table_of_checks(found))
    recheck.must_be_sound(found)


@app.command()
def demonstrate(
    tasks: Annotated[Path, typer.Argument(help="A benchmark, or one tasks.jsonl of it.")],
    output: Annotated[Path, typer.Option(help="A new file for the demonstrations (JSONL).")],
    mistake_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of episodes that end in a mistake.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="Seed of the choice of mistakes.")] = 0,
) -> None:
    """Write whole episodes of training tasks, as examples of the form of replies."""
    from rich.progress import track

    from assay_reward.or_debug.dataset.benchmark import must_be_no_file
    from assay_reward.or_debug.dataset.demonstrations import demonstrations
    from assay_reward.or_debug.dataset.tasks import save
    from assay_reward.or_debug.episode.episode import Episodes
    from assay_reward.or_debug.evaluate.evaluation import read_tasks
    from assay_shared.types import Role

    must_be_no_file(output)
    shown = track(read_tasks(tasks, Role.TRAIN), description="playing", transient=True)
    played = Episodes(_SOLVE_TIMEOUT_S)
    rows = list(demonstrations(shown, played, mistake_rate=mistake_rate, seed=seed))
    save(rows, output)
    print(f"{len(rows)} episodes in {output}")


def _show(table: object) -> None:
    """Print a table in full, even without a terminal's width."""
    from rich.console import Console

    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)


def _cells(types: str, difficulties: str) -> "tuple[CellPlan, ...]":
    from assay_reward.or_debug.generate.cells import ERROR_TYPES, cells
    from assay_reward.or_debug.models.instance import DIFFICULTIES

    return cells(
        tuple(kind for kind in ERROR_TYPES if kind in _chosen(types, ERROR_TYPES, "types")),
        tuple(
            level
            for level in DIFFICULTIES
            if level in _chosen(difficulties, DIFFICULTIES, "difficulties")
        ),
    )


def _chosen(text: str, known: tuple[str, ...], option: str) -> set[str]:
    from assay_shared.errors import InvalidInput

    chosen = {part.strip() for part in text.split(",")}
    if unknown := sorted(chosen - set(known)):
        hint = f"there are {', '.join(known)}"
        raise InvalidInput(f"there is no {', '.join(unknown)}", field=option, hint=hint)
    return chosen


def _engine(name: str, option: str) -> "Engine":
    from assay_reward.or_debug.models.solver import Engine

    return cast("Engine", _one_of(name, get_args(Engine), option))


def _one_of(name: str, known: tuple[str, ...], option: str) -> str:
    from assay_shared.errors import InvalidInput

    if name not in known:
        raise InvalidInput(
            f"there is no {name}", field=option, hint=f"there are {', '.join(known)}"
        )
    return name


def _role(name: str) -> "Role | None":
    """Return the role, or None to split the tasks among roles."""
    from assay_shared.types import Role

    roles = (Role.TEST, Role.TRAIN, Role.VALIDATION)
    name = _one_of(name, (*roles, "split"), "role")
    return None if name == "split" else Role(name)


def _table_of_cells(manifest: "Manifest") -> object:
    from rich.table import Table

    table = Table("cell")
    table.columns[0].no_wrap = True
    for heading in ("number", "LP/MIP", "mistakes", "columns", "rows", "IIS rows", "identifiable"):
        table.add_column(heading, no_wrap=True)
    for cell in manifest.cells:
        spreads = (cell.num_columns, cell.num_rows, cell.num_iis_rows)
        table.add_row(
            cell.name,
            str(cell.num_instances),
            f"{cell.num_lp}/{cell.num_mip}",
            str(cell.num_mistakes),
            *(f"{low:g}-{high:g}" for low, _, high in spreads),
            f"{cell.num_identifiable / cell.num_instances:.0%}",
        )
    return table


def _table_of_checks(checks: "tuple[CellCheck, ...]") -> object:
    from rich.table import Table

    table = Table("cell")
    table.columns[0].no_wrap = True
    for heading in ("number", "same", "infeasible", "restored", "explained", "problems"):
        table.add_column(heading, no_wrap=True)
    for cell in checks:
        numbers = (
            cell.num_instances,
            cell.num_same_model,
            cell.num_infeasible,
            cell.num_restored,
            cell.num_explained,
            len(cell.problems),
        )
        table.add_row(cell.name, *map(str, numbers))
    return table


def _table_of_claims(made: "Imported") -> object:
    from rich.table import Table

    table = Table("type")
    headings = ("problems", "read", "infeasible", "own IIS irreducible", "fix read")
    for heading in (*headings, "feasible after", "restored", "one edit enough", "sound"):
        table.add_column(heading)
    for claims in made.claims:
        numbers = (
            claims.num_problems,
            claims.num_read,
            claims.num_infeasible,
            claims.num_iis_irreducible,
            claims.num_fix_read,
            claims.num_feasible_after,
            claims.num_restored,
            claims.num_single_fix,
            claims.num_sound,
        )
        table.add_row(claims.error_type, *map(str, numbers))
    return table
