"""`assay handoff`: a checkpoint becomes a folder for others."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class HandoffDtype(StrEnum):
    """A type of the written weights; `auto` is the checkpoint's own."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


def handoff(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="A Hugging Face folder, a run, its GRPO checkpoint, an adapter, FSDP shards.",
        ),
    ],
    output: Annotated[Path, typer.Option(help="A new folder to write to.")],
    base: Annotated[Path | None, typer.Option(help="The base of an adapter.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A folder with the tokenizer, if the checkpoint has none.")
    ] = None,
    dtype: Annotated[HandoffDtype, typer.Option(help="Type of the weights.")] = HandoffDtype.AUTO,
    prompts: Annotated[
        Path | None,
        typer.Option(help="JSON lines with prompt or messages, or a .txt file; 8 built in."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Length of each greedy answer.")] = 64,
    min_stopping: Annotated[
        float, typer.Option(min=0, max=1, help="Share of answers that have to end by themselves.")
    ] = 0.5,
    tie_nats: Annotated[
        float, typer.Option(min=0, help="Engines may differ between tokens this close.")
    ] = 0.0,
    vllm: Annotated[
        Path | None,
        typer.Option(
            envvar=["ASSAY_VLLM", "ASSAY_INFERENCE_VLLM_PYTHON"],
            help="Interpreter of an environment with vLLM; this one's without it.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:1 for transformers; the best without it.")
    ] = None,
    limit_s: Annotated[
        float, typer.Option(min=10, help="Time of each engine, and of gathering shards.")
    ] = 1800.0,
) -> None:
    """Write a checkpoint as a Hugging Face folder, check that others can use it, and say so."""
    from rich.console import Console

    from assay_shared.telemetry.logs import quiet_transformers
    from assay_trainer.handoff.handoff import hand_off
    from assay_trainer.handoff.order import HandoffOrder
    from assay_trainer.handoff.progress import HandoffProgress, check_table

    quiet_transformers()
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
    with HandoffProgress(Console(stderr=True)) as progress:
        manifest = hand_off(order, progress)
    console = Console()
    console.print(check_table(manifest))
    for line in manifest.use_lines():
        console.print(line, highlight=False, markup=False)
    told = f"{output} has digest {manifest.digest}"
    console.print(told, highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(1 if manifest.failed else 0)
