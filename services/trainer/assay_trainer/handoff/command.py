"""`assay handoff`: a checkpoint becomes a folder for others."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assay_trainer.handoff.order import HandoffOrder

_CHECKPOINT = typer.Argument(
    metavar="CHECKPOINT",
    help="A Hugging Face folder, a run, its GRPO checkpoint, an adapter, FSDP shards.",
)
_TOKENIZER = typer.Option(
    help="A folder with the tokenizer, if the checkpoint has none; else with the same ids."
)
_PROMPTS = typer.Option(
    help="JSON lines with prompt or messages, or a .txt file; 8 prompts are built in."
)
_STOPPING = typer.Option(min=0, max=1, help="Share of answers that must end by an end token.")
_TIE = typer.Option(
    min=0, help="Engines may differ between tokens this close; in 16 bits 0.5 without it, else 0."
)
_VLLM = typer.Option(
    envvar=["ASSAY_VLLM", "ASSAY_INFERENCE_VLLM_PYTHON"],
    help="Interpreter of an environment with vLLM; this one's without it.",
)
_DEVICE = typer.Option(help="cpu, cuda or cuda:1 for transformers; the best without it.")
_LIMIT = typer.Option(min=10, help="Time of each engine, and of gathering shards, in seconds.")


class HandoffDtype(StrEnum):
    """A type of the written weights; `auto` is the checkpoint's own."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


def handoff(
    checkpoint: Annotated[Path, _CHECKPOINT],
    output: Annotated[Path, typer.Option(help="A new folder to write to.")],
    base: Annotated[Path | None, typer.Option(help="The base of an adapter.")] = None,
    tokenizer: Annotated[Path | None, _TOKENIZER] = None,
    dtype: Annotated[HandoffDtype, typer.Option(help="Type of the weights.")] = HandoffDtype.AUTO,
    prompts: Annotated[Path | None, _PROMPTS] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Length of each greedy answer.")] = 64,
    min_stopping: Annotated[float, _STOPPING] = 0.5,
    tie_nats: Annotated[float | None, _TIE] = None,
    vllm: Annotated[Path | None, _VLLM] = None,
    device: Annotated[str | None, _DEVICE] = None,
    limit_s: Annotated[float, _LIMIT] = 1800.0,
) -> None:
    """Write a checkpoint as a Hugging Face folder, check that others can use it, and say so."""
    from assay_trainer.handoff.order import HandoffOrder, check_output

    check_output(output)  # before libraries are imported, which takes seconds
    order = HandoffOrder(
        checkpoint=checkpoint,
        output=output,
        base=base,
        tokenizer=tokenizer,
        dtype=None if dtype is HandoffDtype.AUTO else dtype.value,
        prompts=prompts,
        max_tokens=max_tokens,
        min_stopping=min_stopping,
        tie_nats=tie_nats,
        vllm=vllm,
        device=device,
        limit_s=limit_s,
    )
    raise typer.Exit(_hand_off(order))


def _hand_off(order: "HandoffOrder") -> int:
    """Hand off, print the checks and uses, and return the exit status."""
    from rich.console import Console

    from assay_shared.telemetry.logs import quiet_transformers
    from assay_trainer.handoff.handoff import hand_off
    from assay_trainer.handoff.progress import HandoffProgress, check_table

    quiet_transformers()
    with HandoffProgress(Console(stderr=True)) as progress:
        manifest = hand_off(order, progress)
    console = Console(highlight=False, markup=False)
    console.print(check_table(manifest))
    for line in manifest.use_lines():
        console.print(line)
    console.print(f"{order.output} has digest {manifest.digest}", soft_wrap=True)
    return 1 if manifest.failed else 0
