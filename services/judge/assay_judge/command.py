"""The `assay judge` commands: serve a chain of models, and measure its reliability."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from assay_judge.bench.names import Reason, SetName
from assay_shared.service.cli_options import FdOption, HostOption, port_option

app = typer.Typer(
    help="Judge answers by a chain of models.", no_args_is_help=True, add_completion=False
)


@app.callback()
def judge() -> None:
    """Judge answers by a chain of models."""


@app.command()
def serve(
    host: HostOption = "127.0.0.1", port: int = port_option(8003), fd: FdOption = None
) -> None:
    """Serve verdicts over HTTP until stopped."""
    from assay_judge.app import create_app
    from assay_judge.settings import JudgeSettings
    from assay_shared.service.server import Address, run_service

    run_service("judge", JudgeSettings, create_app, Address(host, port, fd))


@app.command()
def calibrate(
    file: Path = typer.Argument(help="Labelled examples (JSONL)."),
    output: Path = typer.Option(help="Folder for the report; one that has no report is resumed."),
    config: Path | None = typer.Option(
        None, help="Chain to measure (YAML). Default: the service's own chain."
    ),
    repeats: int = typer.Option(2, min=1, max=20, help="Judgements of each example."),
    probes: bool = typer.Option(True, help="Attack each judge with prompt injections."),
    ceiling: float | None = typer.Option(
        None, min=0, help="Maximum cost of the calibration. Default: the chain's own ceiling."
    ),
) -> None:
    """Measure each judge of a chain separately, on examples labelled by people."""
    with _measuring("calibrate", config, examples=file, report=output) as chain:
        from assay_judge.calibration.run import run_calibration

        run_calibration(file, output, chain, repeats, probes, ceiling)


@app.command()
def bench(
    name: SetName = typer.Argument(metavar="SET", help="llmbar, judgebench or rmbench."),
    output: Path = typer.Option(help="Folder for the report; one with results is resumed."),
    data: Path = typer.Option(
        envvar="ASSAY_DATA", help="The set's file or folder, or the folder above it."
    ),
    config: Path | None = typer.Option(
        None, help="Chain to measure (YAML). Default: the service's own chain."
    ),
    reason: Reason | None = typer.Option(
        None, help="Ask for the reason before or after the verdict. Default: both in turn."
    ),
    subset: list[str] = typer.Option([], help="Only this subset; may be given several times."),
    limit: int | None = typer.Option(None, min=1, help="Maximum number of rows, random sample."),
    seed: int = typer.Option(1, help="Seed of the random sample of rows."),
    concurrency: int = typer.Option(16, min=1, max=1024, help="Pairs judged at once."),
    ceiling: float | None = typer.Option(
        None, min=0, help="Maximum cost of the bench. Default: the chain's own ceiling."
    ),
) -> None:
    """Measure a chain on published pairs: accuracy, position bias, agreement, cost."""
    with _measuring("judge bench", config, set=str(name), report=output) as chain:
        from assay_judge.bench.run import BenchPlan, run_bench

        reasons = tuple(Reason) if reason is None else (reason,)
        chosen = BenchPlan(
            *(name, data, output, chain, reasons, tuple(subset)),
            limit=limit,
            seed=seed,
            concurrency=concurrency,
            ceiling=ceiling,
        )
        run_bench(chosen)


@contextmanager
def _measuring(action: str, config: Path | None, **details: object) -> Iterator[Path | None]:
    """Record a measurement in the audit log around the block.

    Yields the chain's file: `config`, or else the service's own (None if neither is set).
    """
    from assay_judge.settings import JudgeSettings
    from assay_shared.errors import ConfigError
    from assay_shared.service.audit import recorded, set_up_audit
    from assay_shared.settings.environment import read_settings
    from assay_shared.telemetry.logs import set_up_logging

    settings = read_settings(JudgeSettings)
    set_up_logging("judge", "ERROR")
    set_up_audit("judge", settings, shown=False)  # a person is at the terminal
    chain = config or settings.judge_config
    try:
        with recorded(action, config=chain, **details):
            yield chain
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`assay judge {action.removeprefix('judge ')}` needs {error.name}, which is not "
            "installed",
            hint="pip install 'assay-rl[calibrate]'",
        ) from error
