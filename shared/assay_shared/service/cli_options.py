"""Command-line options common to all services."""

from typing import Annotated, Any

import typer

HostOption = Annotated[
    str, typer.Option("--host", help="Address to listen on; separate several by commas.")
]
FdOption = Annotated[
    int | None,
    typer.Option("--fd", help="Listening socket passed by a parent process.", hidden=True),
]


def port_option(default: int) -> Any:
    """Return the option `--port` with the service's usual port."""
    return typer.Option(default, "--port", help="Port to listen on; 0 takes a free one.")
