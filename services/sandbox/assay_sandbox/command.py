"""Run untrusted programs with limits: serve, run, prepare, equivalence."""

from pathlib import Path

import typer

from assay_shared.service.cli_options import FdOption, HostOption, port_option

app = typer.Typer(
    help="Run untrusted programs with limits.", no_args_is_help=True, add_completion=False
)


@app.command()
def serve(
    host: HostOption = "127.0.0.1", port: int = port_option(8002), fd: FdOption = None
) -> None:
    """Serve the sandbox over HTTP until stopped."""
    from assay_sandbox.app import create_app
    from assay_sandbox.settings import SandboxSettings
    from assay_shared.service.server import Address, run_service

    run_service("sandbox", SandboxSettings, create_app, Address(host, port, fd))


@app.command()
def run(
    file: Path = typer.Argument(exists=True, dir_okay=False, help="The program."),
    language: str | None = typer.Option(
        None, help="Its language. Default: by the end of the file's name, else python."
    ),
    stdin: str = typer.Option("", help="Its standard input."),
) -> None:
    """Run one program here, without the service, and print the result as JSON.

    The exit code is 0 for every result, a failed program's too.
    """
    import asyncio

    from prometheus_client import CollectorRegistry

    from assay_sandbox.languages.languages import language_of
    from assay_sandbox.sandbox import LocalSandbox
    from assay_sandbox.settings import SandboxSettings
    from assay_shared.errors import InvalidInput
    from assay_shared.settings.environment import read_settings
    from assay_shared.types import ExecutionRequest, ExecutionResult

    try:
        code = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8: byte {error.start}", field="FILE") from None
    chosen = language_of(file.name) if language is None else language
    request = ExecutionRequest(code=code, language=chosen, stdin=stdin)

    async def run_once() -> ExecutionResult:
        sandbox = LocalSandbox(read_settings(SandboxSettings), CollectorRegistry())
        await sandbox.open()
        try:
            return await sandbox.execute(request)
        finally:
            await sandbox.close()

    print(asyncio.run(run_once()).model_dump_json(indent=2))


@app.command()
def prepare() -> None:
    """Build the files that compilers need once (precompiled headers), as an image build does.

    They are kept in ASSAY_SANDBOX_TOOLCHAIN_FOLDER. Otherwise the first program waits for them.
    """
    import asyncio
    import sys
    import tempfile

    from assay_sandbox.languages.toolchain import Toolchain, make_folder
    from assay_sandbox.settings import SandboxSettings
    from assay_shared.settings.environment import read_settings

    settings = read_settings(SandboxSettings)
    folder = make_folder(settings, Path(tempfile.gettempdir()), has_namespaces=True)
    toolchain = Toolchain(folder, settings.toolchains, sys.executable)
    names = asyncio.run(toolchain.prepare_all())
    print(f"ready in {folder}: {', '.join(names) or 'nothing is needed'}")


@app.command()
def equivalence(
    data: Path = typer.Option(help="Folder with the data sets.", exists=True, file_okay=False),
    set: list[str] = typer.Option([], help="Only this data set; may be repeated."),
    match: str = typer.Option("", help="Only programs whose name contains this."),
    limit: int | None = typer.Option(None, min=1, help="Sample at most this many per data set."),
    seed: int = typer.Option(0, help="Seed of the sample."),
    jobs: int = typer.Option(2, min=1, help="Programs at once."),
    cpu_time_s: float = typer.Option(10.0, min=1, max=300, help="CPU time of each program."),
    url: str | None = typer.Option(None, help="A running sandbox; if not given, start one."),
    output: Path | None = typer.Option(None, help="Write all differences to this file, as JSON."),
) -> None:
    """Run data sets in slots and under plain Python, without protecting this machine from them.

    The exit code is 1 if a difference between the two has no known reason. An interrupt (Ctrl-C)
    shows the comparisons made until then; the exit code is 130.
    """
    import asyncio

    from rich.console import Console

    from assay_sandbox.equivalence import view
    from assay_sandbox.equivalence.corpora import Choice
    from assay_sandbox.equivalence.measure import EquivalenceResult

    console = Console()
    choice = Choice(tuple(set), match, limit, seed)
    options = view.ViewOptions(data, choice, jobs, cpu_time_s, url)
    seen = EquivalenceResult()
    is_whole = True
    try:
        asyncio.run(view.measure(options, console, seen))
    except KeyboardInterrupt:
        is_whole = False
    view.show(seen, console)
    if output is not None:
        view.write(seen, output)
    if seen.unexplained or not is_whole:
        raise typer.Exit(1 if is_whole else 130)
