"""Command-line options that all services have."""

from typing import Annotated, Any

import typer

HostOption = Annotated[
    str, typer.Option("--host", help="Address to listen on; several are divided by commas.")
]
FdOption = Annotated[
    int | None,
    typer.Option("--fd", help="Listening socket passed by a parent process.", hidden=True),
]


def port_option(default: int) -> Any:
    """`--port` with the service's usual port."""
    return typer.Option(default, "--port", help="Port to listen on; 0 takes a free one.")
