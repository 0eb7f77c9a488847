"""Check, show and run workflows."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay_reward.workflows.comparison.command import compare
from assay_reward.workflows.playing.run_command import run, tasks, trace
from assay_reward.workflows.search.command import search

if TYPE_CHECKING:
    from rich.tree import Tree

    from assay_reward.workflows.language.checker import CheckedWorkflow
    from assay_reward.workflows.language.source import WorkflowForm
    from assay_reward.workflows.language.tree import Node
    from assay_reward.workflows.repair.repair import RepairedWorkflow

app = typer.Typer(
    help="Check, repair, show and run programs of model calls.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(run)
app.command()(tasks)
app.command()(trace)
app.command()(compare)
app.command()(search)
SourceFile = Annotated[Path, typer.Argument(help="The workflow; - reads standard input.")]
AsPython = Annotated[bool, typer.Option("--python", help="Read the file as the Python form.")]
AsText = Annotated[bool, typer.Option("--text", help="Read the file as the text form.")]


@app.command()
def check(
    file: SourceFile,
    python: AsPython = False,
    text: AsText = False,
    repair: Annotated[bool, typer.Option("--repair", help="Repair it first, show how.")] = False,
) -> None:
    """Check a workflow; exit with status 2 and all problems if it may not run."""
    from assay_reward.workflows.language.source import check_source

    source = _read(file)
    form = _form(source, python, text)
    checked = _repaired(source, form).checked if repair else check_source(source, form)
    checked.or_refuse()
    print(f"valid {form} form; {_cost(checked)}")


@app.command()
def show(file: SourceFile, python: AsPython = False, text: AsText = False) -> None:
    """Show a workflow in both forms, its repairs, its tree and its largest cost."""
    from rich.console import Console

    from assay_reward.workflows.language.source import WorkflowForm, print_workflow

    source = _read(file)
    repaired = _repaired(source, _form(source, python, text))
    tree = repaired.checked.tree
    for form in WorkflowForm:
        print(f"# {form} form\n{print_workflow(tree, form)}")
    print("# tree")
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(_drawn(tree))
    print(f"\n# cost\n{_cost(repaired.checked)}")
    repaired.checked.or_refuse()


def _read(file: Path) -> str:
    """Return the source; what exceeds the limit is not read, apart from one character."""
    from assay_reward.workflows.language.limits import DEFAULT_LIMITS
    from assay_shared.errors import InvalidInput

    limit = DEFAULT_LIMITS.max_chars + 1
    try:
        if str(file) == "-":
            return sys.stdin.read(limit)
        with file.open(encoding="utf-8-sig") as opened:
            return opened.read(limit)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8", field="FILE", hint="save it as UTF-8") from error


def _form(source: str, python: bool, text: bool) -> "WorkflowForm":
    from assay_reward.workflows.language.source import WorkflowForm, form_of
    from assay_shared.errors import InvalidInput

    if python and text:
        raise InvalidInput("--python and --text", field="FILE", hint="give one of them, or none")
    if python:
        return WorkflowForm.PYTHON
    return WorkflowForm.TEXT if text else form_of(source)


def _repaired(source: str, form: "WorkflowForm") -> "RepairedWorkflow":
    """Return the repaired workflow, after a print of its repairs and their diff."""
    from assay_reward.workflows.repair.repair import repair_source

    repaired = repair_source(source, form)
    if repaired.repairs:
        print(f"# repairs: {len(repaired.repairs)}")
        for one in repaired.repairs:
            print(one)
        print(f"\n{repaired.diff()}")
    return repaired


def _cost(checked: "CheckedWorkflow") -> str:
    from assay_reward.workflows.execution.budgets import RunBudgets
    from assay_reward.workflows.execution.retries import retries_within, run_bound
    from assay_reward.workflows.operators.table import OPERATORS

    bound, budgets = checked.bound, RunBudgets()
    retries = retries_within(checked.tree, OPERATORS, budgets)
    largest = run_bound(checked.tree, OPERATORS, retries)
    used = (
        f"at most {bound.operator_calls} operator calls, "
        f"{largest.calls} calls of the executor model, {largest.programs} programs, "
        f"depth {largest.depth}, {bound.steps} steps"
    )
    if largest.fits(budgets):
        has_retries = largest != run_bound(checked.tree, OPERATORS)
        return f"{used}; an operator retries at most {retries} times" if has_retries else used
    return (
        f"{used}; a run may leave the default budgets of {budgets.calls} calls, "
        f"{budgets.programs} programs and depth {budgets.depth}, and is stopped there"
    )


def _drawn(node: "Node") -> "Tree":
    """Return a node with all nodes under it, to be printed."""
    from rich.text import Text
    from rich.tree import Tree

    from assay_reward.workflows.language.tree import Position, children

    values = [getattr(node, field.name) for field in fields(node)]
    plain = [repr(value) for value in values if isinstance(value, str | int | float)]
    texts = [value for value in values if isinstance(value, tuple)]
    plain += [repr(part) for value in texts for part in value if isinstance(part, str)]
    place = next(value for value in values if isinstance(value, Position))
    label = " ".join([type(node).__name__, *plain, f"({place.line}:{place.column})"])
    drawn = Tree(Text(label), guide_style="dim")
    for child in children(node):
        drawn.children.append(_drawn(child))
    return drawn
