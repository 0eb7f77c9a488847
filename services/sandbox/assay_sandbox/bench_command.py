"""Put load on a running service, and show what it holds: sandbox.

Each imports what it needs when it runs, so that --help needs none of it.
"""

from pathlib import Path
from typing import Literal

import typer

app = typer.Typer(
    help="Put load on a running service, and show what it holds.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def bench() -> None:
    """Put load on a running service, and show what it holds."""


@app.command()
def sandbox(
    url: str = typer.Option("http://127.0.0.1:8002", help="The sandbox."),
    format: Literal["assay", "sandboxfusion"] = typer.Option("assay", help="Whose API it has."),
    program: Literal["print", "judge"] = typer.Option(
        "print", help="print(1), or a program with 20 stdin tests."
    ),
    concurrency: str = typer.Option("1,8,64", help="Requests at once, step by step."),
    duration_s: float = typer.Option(5.0, min=0.1, help="Seconds of each step."),
    output: Path | None = typer.Option(None, help="Write the figures to this file, as JSON."),
    picture: Path | None = typer.Option(None, help="Draw them into this file (PNG)."),
) -> None:
    """Drive a sandbox, check every answer, and show throughput and latency."""
    import asyncio
    import json

    from rich.console import Console
    from rich.table import Table

    from assay_sandbox import load
    from assay_shared.errors import InvalidInput
    from assay_shared.settings import ServiceSettings, read_settings

    workload = load.WORKLOADS[load.Format(format), load.Program(program)]
    try:
        steps_at = load.parse_concurrencies(concurrency)
    except ValueError:
        raise InvalidInput("numbers above 0, as 1,8,64", field="--concurrency") from None
    console = Console()

    def show(step: load.Step) -> None:
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
