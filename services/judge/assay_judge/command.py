"""Judge answers by a chain of models: serve."""

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
