"""`assay compare`. It imports its needs when run."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from assay_trainer.comparison.arms import ComparedArm
    from assay_trainer.comparison.comparing import ComparisonData, ComparisonPlan
    from assay_trainer.comparison.rows import Margins

_WIDTH = 150


def compare(
    evaluations: list[str] = typer.Argument(
        None, help="Folders of assay evaluate, runs, or RUN:before and RUN:after."
    ),
    arm: list[str] = typer.Option(
        None, help="NAME=PATH,PATH: several seeds of one side, or a name for one evaluation."
    ),
    baseline: str | None = typer.Option(None, help="Name of the baseline; the first without it."),
    expect: Path | None = typer.Option(None, help="YAML file of expected changes."),
    rules: Path | None = typer.Option(None, help="YAML file of signs of trouble; else our own."),
    by: list[str] = typer.Option(None, help="Split each set by this tag; may be repeated."),
    metric: list[str] = typer.Option(None, help="Compare only this metric; may be repeated."),
    same_within: list[str] = typer.Option(
        None, help="Differences that count as none: 2pp of shares, 5% of tokens."
    ),
    confidence: float = typer.Option(0.95, min=0.5, max=0.999, help="Confidence of intervals."),
    allow_different: bool = typer.Option(
        False, help="Compare evaluations of different protocols, sets, scorers or engines."
    ),
    output: Path | None = typer.Option(None, help="Write the report to this folder."),
) -> None:
    """Compare evaluations, runs or seeds: paired tests, verdicts, expectations."""
    from rich.console import Console

    from assay_trainer.comparison.anomalies import DEFAULT_RULES, read_rules
    from assay_trainer.comparison.comparing import ComparisonPlan
    from assay_trainer.comparison.expectations import known_metric, read_expectations

    plan = ComparisonPlan(
        confidence=confidence,
        margins=_margins(same_within or []),
        metrics=[known_metric(name, "--metric")[0] for name in metric or []],
        tags=by or [],
        expectations=read_expectations(expect) if expect is not None else [],
        rules=read_rules(rules or DEFAULT_RULES),
        tells_unused_rules=rules is not None,
        allow_different=allow_different,
    )
    _check_output(output)
    arms = _arms(evaluations or [], arm or [], baseline)
    data = _compared(arms, plan)
    console = Console()
    _show(data, console if console.is_terminal else Console(width=_WIDTH))
    if output is not None:
        from assay_trainer.comparison.report.writing import write_comparison

        write_comparison(data, arms, output)
        print(f"written to {output}: summary.txt, comparison_table.md, comparison.html, data")


def _arms(places: list[str], named: list[str], baseline: str | None) -> "list[ComparedArm]":
    """Return the arms, the baseline first; of two with one name, each is called by its path."""
    from dataclasses import replace

    from assay_shared.errors import ConfigError
    from assay_trainer.comparison.loading import has_two_evaluations, read_arm

    if len(places) == 1 and not named and has_two_evaluations(places[0]):
        places = [f"{places[0]}:before", f"{places[0]}:after"]
    arms = [read_arm(None, [place]) for place in places]
    names = [one.name for one in arms]
    arms = [
        replace(one, name=place) if names.count(one.name) > 1 else one
        for one, place in zip(arms, places, strict=True)
    ]
    for text in named:
        name, sign, paths = text.partition("=")
        if not sign or not name or not all(paths.split(",")):
            raise ConfigError(f"{text!r} does not look like NAME=PATH,PATH", field="--arm")
        arms.append(read_arm(name, paths.split(",")))
    if baseline is not None:
        first = next((one for one in arms if one.name == baseline), None)
        if first is None:
            known = ", ".join(one.name for one in arms)
            raise ConfigError(f"no arm is called {baseline!r}", field="--baseline", hint=known)
        arms = [first, *(one for one in arms if one is not first)]
    return arms


def _check_output(output: Path | None) -> None:
    """Refuse the folder of something else before the work begins."""
    if output is not None:
        from assay_trainer.comparison.report.writing import check_output

        check_output(output)


def _margins(amounts: list[str]) -> "Margins":
    from assay_shared.errors import ConfigError
    from assay_trainer.comparison.amounts import ChangeKind, read_amount
    from assay_trainer.comparison.metrics import MetricUnit
    from assay_trainer.comparison.rows import Margins

    found: dict[ChangeKind, float] = {}
    for text in amounts:
        amount = read_amount(text, "--same-within")
        if amount.kind is ChangeKind.ABSOLUTE:
            amount = read_amount(text, "--same-within", MetricUnit.SHARE)
        if amount.kind in found or amount.value == 0:
            raise ConfigError(f"{text!r} is 0, or the second of its kind", field="--same-within")
        found[amount.kind] = amount.value
    return Margins(share=found.get(ChangeKind.ABSOLUTE), relative=found.get(ChangeKind.RELATIVE))


def _compared(arms: "list[ComparedArm]", plan: "ComparisonPlan") -> "ComparisonData":
    """Return the comparison; show the number of rows measured so far."""
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from assay_trainer.comparison.comparing import compare_arms

    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed:.0f} rows"))
    with Progress(*columns, transient=True, console=Console(stderr=True)) as progress:
        task = progress.add_task("comparing", total=None)
        counting = replace(plan, on_row=lambda: progress.advance(task))
        return compare_arms(arms[0], arms[1:], counting) if arms else _refuse_nothing()


def _refuse_nothing() -> "ComparisonData":
    from assay_shared.errors import ConfigError

    raise ConfigError("a comparison needs two sides", hint="assay compare A B")


def _show(data: "ComparisonData", console: "object") -> None:
    from rich.console import Console

    from assay_shared.text.markdown import visible
    from assay_trainer.comparison.report.summary import failures, troubles, verdict_sentence
    from assay_trainer.comparison.report.terminal import tables

    assert isinstance(console, Console)
    for line in data.different:
        print(visible(f"not measured the same way: {line}"))
    for name in (data.baseline, *data.arms):
        paths = ", ".join(one.path for one in data.evaluations[name])
        print(visible(f"{name}: {paths}"))
    for table in tables(data):
        console.print(table)
    held = [line for name in data.arms for line in troubles(data, name)]
    for line in (*data.notes, *held):
        print(visible(line))
    for name in data.arms:
        for line in failures(data, name):
            print(visible(line))
        print(visible(verdict_sentence(data, name)))
