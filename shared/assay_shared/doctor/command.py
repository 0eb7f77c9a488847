"""CLI command `assay doctor`: checks an installation and prints findings with advice."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from assay_shared.doctor import CheckResult

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "blue"}


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print findings as JSON."),
    strict: bool = typer.Option(False, help="Count warnings as failures."),
    timeout_s: float = typer.Option(5.0, min=0.1, help="Timeout of one answer."),
    max_skew_s: float = typer.Option(5.0, min=1.0, help="Allowed clock difference."),
    min_free_gib: float = typer.Option(5.0, min=0.0, help="Free disk space for runs."),
) -> None:
    """Check an installation and print advice. Exit code 1: something must be fixed."""
    import asyncio
    import json

    from assay_shared.doctor import CheckStatus, ServiceLimits, examine
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_shared.telemetry.logs import set_up_logging

    set_up_logging("doctor", "ERROR")
    limits = ServiceLimits(
        timeout_s=timeout_s, max_skew_s=max_skew_s, min_free_bytes=min_free_gib * 2**30
    )
    findings = asyncio.run(examine(read_settings(ServiceSettings), limits))
    if as_json:
        print(json.dumps([one.model_dump(mode="json") for one in findings], indent=2))
    else:
        _show(findings)
    bad = {CheckStatus.FAIL, CheckStatus.WARN} if strict else {CheckStatus.FAIL}
    if any(one.status in bad for one in findings):
        raise typer.Exit(1)


def _show(findings: "list[CheckResult]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "check", "found", "what to do", box=None, padding=(0, 1))
    for one in findings:
        mark = Text(one.status, style=_COLOURS[one.status])
        table.add_row(mark, Text(one.check), Text(one.found), Text(one.advice))
    Console(highlight=False).print(table)
