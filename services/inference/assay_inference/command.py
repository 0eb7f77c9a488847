"""The `assay inference` commands, and the commands to chat and to generate."""

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from assay_shared.service.cli_options import FdOption, HostOption, port_option

if TYPE_CHECKING:  # only a type
    from assay_shared.clients import InferenceClient

app = typer.Typer(
    help="Serve the policy: generation, and updates of its weights.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def inference() -> None:
    """Serve the policy: generation, and updates of its weights."""


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
    from assay_inference.api.app import create_app
    from assay_inference.settings import InferenceSettings
    from assay_shared.service.server import Address, run_service
    from assay_shared.telemetry.logs import quiet_transformers

    if model is not None:
        os.environ["ASSAY_INFERENCE_MODEL"] = str(model)
    quiet_transformers()
    run_service("inference", InferenceSettings, create_app, Address(host, port, fd))


@app.command()
def convert(
    folder: Path = typer.Argument(help="Checkpoint folder with pytorch_model*.bin."),
    into: Path = typer.Argument(help="New folder for the same checkpoint as safetensors."),
    limit_s: float = typer.Option(600.0, min=1, help="Processor time it may take, in seconds."),
) -> None:
    """Convert a checkpoint from pickles to safetensors, the only format that is served.

    A process without secrets and without a network opens the pickles, as tensors only.
    """
    from assay_inference.weights.convert import convert as write_anew

    print(f"{into} has digest {write_anew(folder, into, limit_s)}")


def chat(
    url: str | None = typer.Option(None, help="URL of inference. Default: ASSAY_INFERENCE_URL."),
    max_tokens: int = typer.Option(256, min=1, help="Maximum tokens of an answer."),
    temperature: float = typer.Option(1.0, min=0, max=2, help="0 is greedy."),
) -> None:
    """Talk with the served policy; an empty line ends the conversation."""
    import asyncio

    from assay_shared.types import GenerateRequest, Message, SamplingParams

    sampling = SamplingParams(max_tokens=max_tokens, temperature=temperature)

    async def talk() -> None:
        ids: tuple[int, ...] = ()
        async with _client(url) as client:
            while text := (await asyncio.to_thread(_read_line)).strip():
                turn = (Message(role="user", content=text),)
                said = (
                    GenerateRequest(token_ids=ids, then=turn, sampling=sampling)
                    if ids
                    else GenerateRequest(messages=turn, sampling=sampling)
                )
                answer = await client.generate(said)
                (completion,) = answer.completions
                print(completion.text)
                ids = (*answer.prompt_token_ids, *completion.token_ids)

    asyncio.run(talk())


def generate(
    file: Path = typer.Argument(help="JSON lines, each a body of POST /v1/generate."),
    output: Path | None = typer.Option(None, help="File for the answers; else standard output."),
    url: str | None = typer.Option(None, help="URL of inference. Default: ASSAY_INFERENCE_URL."),
    concurrency: int = typer.Option(64, min=1, help="Requests in flight at once."),
) -> None:
    """Answer a file of requests: JSON lines in, JSON lines out, in the same order."""
    import asyncio

    from assay_inference.api.requests_file import answer_all
    from assay_shared.runs.json_lines import read_json_lines
    from assay_shared.types import GenerateRequest

    requests = list(read_json_lines(file, GenerateRequest.model_validate))

    async def run() -> int:
        num_failed = 0
        with contextlib.ExitStack() as stack:
            to = stack.enter_context(output.open("w")) if output else sys.stdout
            async with _client(url) as client:
                done = 0
                async for line in answer_all(client, requests, concurrency):
                    done += 1
                    num_failed += line.startswith('{"failure"')
                    to.write(line + "\n")
                    print(f"\r{done} of {len(requests)}", end="", file=sys.stderr)
        print(f", {num_failed} failed", file=sys.stderr)
        return num_failed

    raise typer.Exit(1 if asyncio.run(run()) else 0)


def _client(url: str | None) -> "InferenceClient":
    from assay_shared.clients import InferenceClient
    from assay_shared.settings.environment import ServiceSettings, read_settings

    settings = read_settings(ServiceSettings)
    if url is not None:
        settings = settings.model_copy(update={"inference_url": url})
    return InferenceClient.from_settings(settings)


def _read_line() -> str:
    try:
        return input("> ")
    except EOFError:
        return ""
