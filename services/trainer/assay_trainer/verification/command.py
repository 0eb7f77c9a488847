"""`assay verify`: is a base model's channel clean, and how does the model behave?"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_POLICY = typer.Argument(help="A folder, RUN, RUN:STEP, RUN:STAGE, or owner/name of a hub.")
_OUTPUT = typer.Option(help="Folder to write, or to resume.")
_PROMPTS = typer.Option(help="JSON lines with `prompt`: further raw prompts to check.")
_PER_KIND = typer.Option(min=1, max=42, help="Sentinel prompts of each kind of behaviour.")
_MAX_TOKENS = typer.Option(min=1, help="Most tokens of a sentinel's answer.")
_CONCURRENCY = typer.Option(min=1, max=1024, help="Requests at once.")


class VerifyServe(StrEnum):
    """As `ServeBy`, without the imports of its module."""

    AUTO = "auto"
    SERVICE = "service"
    OWN = "own"


_SERVE = typer.Option(
    help="The running inference service (service), an own engine (own), or what there is (auto)."
)


def verify(
    policy: Annotated[str, _POLICY],
    output: Annotated[Path, _OUTPUT],
    prompts: Annotated[Path | None, _PROMPTS] = None,
    per_kind: Annotated[int, _PER_KIND] = 40,
    max_tokens: Annotated[int, _MAX_TOKENS] = 96,
    concurrency: Annotated[int, _CONCURRENCY] = 32,
    serve: Annotated[VerifyServe, _SERVE] = VerifyServe.AUTO,
) -> None:
    """Check that raw prompts reach a base model without a chat template, and tell its behaviour.

    The same command resumes. Exit code 1: the channel is not clean, or a planted control was
    missed. The behaviour decides nothing.
    """
    from rich.console import Console

    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_shared.telemetry.logs import quiet_transformers, set_up_logging
    from assay_trainer.verification.operation import VerifyOrder, verify_policy

    set_up_logging("verify", "ERROR")
    quiet_transformers()
    order = VerifyOrder(policy, output, prompts, per_kind, max_tokens, concurrency, serve.value)
    if not verify_policy(order, read_settings(ServiceSettings), Console()):
        raise typer.Exit(1)
