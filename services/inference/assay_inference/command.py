"""Serve the policy: generation, and weights that change under it."""

import os
from pathlib import Path

import typer

from assay_shared.options import FdOption, HostOption, port_option

app = typer.Typer(
    help="Serve the policy: generation, and weights that change under it.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def inference() -> None:
    """Serve the policy: generation, and weights that change under it."""


@app.command()
def serve(
    host: HostOption = "127.0.0.1",
    port: int = port_option(8001),
    fd: FdOption = None,
    model: Path | None = typer.Option(
        None, help="Checkpoint folder to serve from the start; else the first update is served."
    ),
) -> None:
    """Serve generation over HTTP until stopped."""
    from assay_inference.app import create_app
    from assay_inference.settings import InferenceSettings
    from assay_shared.logs import quiet_transformers
    from assay_shared.serve import Address, run_service

    if model is not None:
        os.environ["ASSAY_INFERENCE_MODEL"] = str(model)
    quiet_transformers()
    run_service("inference", InferenceSettings, create_app, Address(host, port, fd))
