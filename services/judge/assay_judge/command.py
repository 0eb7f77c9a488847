"""Judge answers by a chain of models: serve, and measure how far it can be trusted."""

from pathlib import Path

import typer

from assay_shared.options import FdOption, HostOption, port_option

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
    from assay_shared.serve import Address, run_service

    run_service("judge", JudgeSettings, create_app, Address(host, port, fd))


@app.command()
def calibrate(
    file: Path = typer.Argument(help="Labelled examples (JSONL)."),
    output: Path = typer.Option(help="New folder for the report."),
    config: Path | None = typer.Option(
        None, help="Chain to measure (YAML); the service's own without it."
    ),
    repeats: int = typer.Option(2, min=1, max=20, help="How often each example is judged."),
    probes: bool = typer.Option(True, help="Attack each judge with prompt injections."),
) -> None:
    """Measure each judge of a chain by itself, on examples that people have labelled."""
    from assay_judge.settings import JudgeSettings
    from assay_shared.audit import recorded, set_up_audit
    from assay_shared.errors import ConfigError
    from assay_shared.logs import set_up_logging
    from assay_shared.settings import read_settings

    try:
        from assay_judge.calibration.run import run_calibration
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`assay judge calibrate` needs {error.name}, which is not installed",
            hint="pip install 'assay-rl[calibrate]'",
        ) from error
    settings = read_settings(JudgeSettings)
    set_up_logging("judge", "ERROR")
    set_up_audit("judge", settings, shown=False)  # a person looks on
    chain = config or settings.judge_config
    with recorded("calibrate", config=chain, examples=file, report=output):
        run_calibration(file, output, chain, repeats, probes)
