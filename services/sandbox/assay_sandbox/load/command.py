"""Benchmark a sandbox service: load, overload, soak, fuzzing and attacks.

Each command imports its modules when it runs, so --help needs none of them.
"""

from pathlib import Path
from typing import Literal

import typer

app = typer.Typer(
    help="Benchmark a sandbox service: load, overload, soak, fuzzing and attacks.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def bench() -> None:
    """Benchmark a sandbox service: load, overload, soak, fuzzing and attacks."""


@app.command()
def sandbox(
    url: str = typer.Option("http://127.0.0.1:8002", help="The sandbox."),
    format: Literal["assay", "sandboxfusion"] = typer.Option("assay", help="The API's format."),
    program: Literal["print", "judge"] = typer.Option(
        "print", help="print(1), or a program with 20 stdin tests."
    ),
    concurrency: str = typer.Option("1,8,64", help="Requests at once, step by step."),
    duration_s: float = typer.Option(5.0, min=0.1, help="Seconds of each step."),
    output: Path | None = typer.Option(None, help="Write the figures to this file, as JSON."),
    picture: Path | None = typer.Option(None, help="Draw them into this file (PNG)."),
) -> None:
    """Put load on a sandbox, check every answer, and show throughput and latency."""
    import asyncio
    import json

    from rich.console import Console
    from rich.table import Table

    from assay_sandbox.load import load
    from assay_shared.errors import InvalidInput
    from assay_shared.settings.environment import ServiceSettings, read_settings

    workload = load.WORKLOADS[load.Format(format), load.LoadProgram(program)]
    try:
        steps_at = load.parse_concurrencies(concurrency)
    except ValueError:
        raise InvalidInput("numbers above 0, as 1,8,64", field="--concurrency") from None
    console = Console()

    def show(step: load.LoadStep) -> None:
        console.print(f"{step.concurrency} at once: {step.per_s:.1f} right answers a second")

    settings = read_settings(ServiceSettings)
    steps = asyncio.run(load.put_load(url, workload, steps_at, duration_s, settings, show))
    table = Table(*load.HEADINGS, title=f"{program} on {url}", title_justify="left")
    for row in load.rows(steps):
        table.add_row(*row)
    console.print(table)
    if output is not None:
        facts = {"url": url, "format": format, "program": program}
        output.write_text(json.dumps(facts | {"steps": [step.facts() for step in steps]}, indent=1))
    if picture is not None:
        load.draw(steps, f"{program} on {url}", picture)
    if not all(step.num_right for step in steps):
        raise InvalidInput("a step has no right answer: is that a sandbox?", field="--url")


@app.command()
def overload(
    url: str = typer.Option("http://127.0.0.1:8002", help="The sandbox."),
    runs: int = typer.Option(10_000, min=1, help="Runs to offer in all."),
    factor: float = typer.Option(4.0, min=0.1, help="Offered load, in multiples of capacity."),
    max_in_flight: int = typer.Option(4096, min=1, help="Unanswered requests at once."),
    late_after_s: float = typer.Option(30.0, min=0.1, help="A later answer is late."),
    output: Path | None = typer.Option(None, help="Write the figures to this file, as JSON."),
) -> None:
    """Offer a sandbox more than it can carry; fail unless each run is accepted or refused."""
    import asyncio
    import json

    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from assay_sandbox.load import overload as overloading
    from assay_shared.runtime.processes import raise_descriptor_limit
    from assay_shared.settings.environment import ServiceSettings, read_settings

    raise_descriptor_limit()
    console = Console()
    settings = read_settings(ServiceSettings)
    with Progress(console=console) as progress:
        task = progress.add_task("offered", total=runs)
        seen = asyncio.run(
            overloading.overload(
                url,
                runs,
                factor,
                max_in_flight,
                late_after_s,
                settings,
                on_progress=lambda num_begun: progress.update(task, completed=num_begun),
            )
        )
    title = f"capacity {seen.capacity_per_s:.0f}/s, offered {seen.offered_per_s:.0f}/s"
    table = Table(*overloading.HEADINGS, title=title, title_justify="left")
    for row in overloading.rows(seen):
        table.add_row(*row)
    console.print(table)
    if output is not None:
        output.write_text(json.dumps(seen.facts(), indent=1))
    if not seen.is_sound:
        raise typer.Exit(1)


@app.command()
def soak(
    duration_s: float = typer.Option(600.0, min=5.0, help="Seconds of full load."),
    concurrency: int = typer.Option(16, min=1, help="Requests at once."),
    output: Path | None = typer.Option(None, help="Write the figures to this file, as JSON."),
    picture: Path | None = typer.Option(None, help="Draw them into this file (PNG)."),
) -> None:
    """Drive a new sandbox for long; fail on a wrong verdict, a leak or anything left behind."""
    import asyncio
    import json

    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from assay_sandbox.load import soak as soaking
    from assay_shared.settings.environment import ServiceSettings, read_settings

    console = Console()
    with Progress(console=console) as progress:
        task = progress.add_task("soak", total=duration_s)

        def show(seen: soaking.Soak) -> None:
            text = f"{seen.right.total()} right, {seen.not_right.total()} not"
            progress.update(task, completed=seen.times_s[-1], description=text)

        settings = read_settings(ServiceSettings)
        seen = asyncio.run(soaking.soak(duration_s, concurrency, settings, show))
    title = f"{seen.per_s:.1f} right/s at isolation {seen.isolation}"
    for headings, rows in (
        (soaking.PROGRAM_HEADINGS, soaking.program_rows(seen)),
        (soaking.GROWTH_HEADINGS, soaking.growth_rows(seen)),
    ):
        table = Table(*headings, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print(f"slots rebuilt: {seen.rebuilds[-1]}")
    if output is not None:
        output.write_text(json.dumps(seen.facts(), indent=1))
    if picture is not None:
        soaking.draw(seen, picture)
    for line in [*seen.details, *seen.troubles()]:
        console.print(line, markup=False, style="red")
    if seen.troubles():
        raise typer.Exit(1)


@app.command()
def fuzz(
    programs: int = typer.Option(1000, min=1, help="Hostile programs to run."),
    seed: int = typer.Option(0, help="The same seed makes the same programs."),
    first: int = typer.Option(0, min=0, help="Number of the first program."),
    concurrency: int = typer.Option(4, min=1, help="Requests at once."),
    url: str | None = typer.Option(None, help="The sandbox; one is started if not given."),
    failures: Path = typer.Option(Path("fuzz-failures"), help="Folder for the failed requests."),
    output: Path | None = typer.Option(None, help="Write the figures to this file, as JSON."),
) -> None:
    """Attack a sandbox with random hostile programs; fail on a sandbox_error or a wrong verdict."""
    import asyncio
    import json

    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from assay_sandbox.load import fuzz as fuzzing
    from assay_shared.settings.environment import ServiceSettings, read_settings

    console = Console()
    with Progress(console=console) as progress:
        task = progress.add_task("fuzz", total=programs)

        def show(seen: fuzzing.Fuzz) -> None:
            text = f"{seen.failures.total()} failures"
            progress.update(task, completed=seen.num_programs, description=text)

        settings = read_settings(ServiceSettings)
        seen = asyncio.run(
            fuzzing.fuzz(
                programs, seed, concurrency, settings, url=url, first=first, on_progress=show
            )
        )
    title = f"seed {seed}, isolation {seen.isolation}, {seen.took_s:.0f} s"
    if seen.is_stopped:
        title += f", stopped after {seen.num_programs} of {programs} programs"
    table = Table(*fuzzing.HEADINGS, title=title, title_justify="left")
    for row in fuzzing.rows(seen):
        table.add_row(*row)
    console.print(table)
    if output is not None:
        output.write_text(json.dumps(seen.facts(), indent=1))
    for path, failure in zip(fuzzing.save(seen, failures), seen.kept, strict=True):
        line = f"{path}: {failure.kind}, program {failure.number}: {failure.said[:200]}"
        console.print(line, markup=False, style="red")
    for line in seen.left:
        console.print(f"left behind: {line}", markup=False, style="red")
    if not seen.is_sound:
        raise typer.Exit(1)


@app.command()
def attacks(
    duration_s: float = typer.Option(5.0, min=0.5, help="Seconds of each attack."),
    only: str = typer.Option("", help="Attacks whose name has this text in it."),
    output: Path | None = typer.Option(None, help="Write the figures to this file, as JSON."),
    picture: Path | None = typer.Option(None, help="Draw them into this file (PNG)."),
) -> None:
    """Attack a new sandbox, and show the latencies of another client meanwhile."""
    import asyncio
    import json

    from rich.console import Console
    from rich.table import Table

    from assay_sandbox.load import attack_bench
    from assay_sandbox.load.attacks import ATTACKS
    from assay_shared.errors import InvalidInput
    from assay_shared.settings.environment import ServiceSettings, read_settings

    names = [name for name in ATTACKS if only in name]
    if not names:
        raise InvalidInput(f"no attack has {only!r} in its name", field="--only")
    console = Console()

    def show(seen: attack_bench.UnderAttack) -> None:
        console.print(" | ".join(next(attack_bench.rows([seen]))), markup=False)

    settings = read_settings(ServiceSettings)
    bench = attack_bench.bench_attacks(names, duration_s, settings, show)
    isolation, found = asyncio.run(bench)
    title = f"isolation {isolation}, {duration_s:g} s of each attack"
    table = Table(title=title, title_justify="left")
    for name in attack_bench.HEADINGS:
        table.add_column(name, no_wrap=name != "attack")
    for row in attack_bench.rows(found):
        table.add_row(*row)
    console.print(table)
    console.print(attack_bench.UNITS)
    if output is not None:
        facts = {"isolation": isolation, "duration_s": duration_s}
        output.write_text(json.dumps(facts | {"attacks": [one.facts() for one in found]}, indent=1))
    if picture is not None:
        attack_bench.draw(found, title, picture)
