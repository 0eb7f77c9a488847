"""The `assay` command: it finds the installed commands and imports a command only to run it."""

import ast
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import Any

import typer
import typer.core
import typer.main

GROUP = "assay.commands"
#: Names that people try first, and the commands that they look for.
_MEANT = {"runs": "trainer list", "list": "trainer list", "ls": "trainer list"}


class CommandGroup(typer.core.TyperGroup):
    """Commands from entry points; --help reads each summary from the source, without an import."""

    # Typer bundles its own copy of click and does not export the types of that copy.

    def list_commands(self, ctx: Any) -> list[str]:
        return [entry.name for entry in _installed()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = next((e for e in _installed() if e.name == cmd_name), None)
        return _load(entry) if entry else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in _MEANT:
            ctx.fail(f"No such command {args[0]!r}: `assay {_MEANT[args[0]]}` is meant.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, summary(entry)) for entry in _installed()])


def _installed() -> list[EntryPoint]:
    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return [entry for entry in found if importlib.util.find_spec(entry.module.split(".")[0])]


def _load(entry: EntryPoint) -> Any:
    try:
        target = entry.load()
    except ModuleNotFoundError as error:
        from assay_shared.errors import ConfigError

        raise ConfigError(
            f"`assay {entry.name}` needs {error.name}, which is not installed",
            hint="pip install 'assay-rl[all]'",
        ) from error
    if not isinstance(target, typer.Typer):
        function, target = target, typer.Typer(add_completion=False)
        target.command(name=entry.name)(function)
    return typer.main.get_command(target)


def summary(entry: EntryPoint) -> str:
    """Return the command's summary, read from its source without an import.

    A function's summary is the first line of its docstring; a group's is its `help`.
    """
    package, _, module = entry.module.rpartition(".")
    spec = importlib.util.find_spec(package)
    folder = (spec.submodule_search_locations or [""])[0] if spec else ""
    tree = ast.parse((Path(folder) / f"{module}.py").read_text())
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=entry.attr):
                return _first_line(ast.get_docstring(node))
            case ast.Assign(targets=[ast.Name(id=entry.attr)], value=ast.Call(keywords=options)):
                for option in options:
                    if option.arg == "help" and isinstance(option.value, ast.Constant):
                        return str(option.value.value)
    return _first_line(ast.get_docstring(tree))


def _first_line(docstring: str | None) -> str:
    return (docstring or "").partition("\n")[0]


def _show_version(asked: bool) -> None:
    if asked:
        print(f"assay {version('assay-rl')}")
        raise typer.Exit


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def assay(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Score what a language model writes, and train it on the scores."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Expected errors are one line on standard error, without a traceback."""
    from assay_shared.runtime.processes import tie_to_parent

    tie_to_parent()
    _find_mesh(sys.argv[1:] if arguments is None else arguments)
    try:
        app(args=arguments, prog_name="assay")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:  # noqa: BLE001  # the CLI's boundary; a bug is raised again
        line, status = _explain(error)
        print(f"error: {line}", file=sys.stderr)
        raise SystemExit(status) from None


def _find_mesh(arguments: Sequence[str]) -> None:
    """Set the variables of an `assay up` mesh in this folder; variables already set stay.

    A separate service (`serve`) and another mesh (`up`, `demo`, `try`) are not parts of that mesh.
    """
    if not arguments or arguments[0] in ("up", "demo", "try") or "serve" in arguments[:2]:
        return
    home = Path(os.environ.get("ASSAY_RUNS") or "runs")
    if not (home / "assay.env").is_file():
        return
    from assay_shared.settings.home import read_variables

    for name, value in read_variables(home).items():
        is_given = name in os.environ or name.removesuffix("_FILE") in os.environ
        if not is_given:
            os.environ[name] = value


def _explain(error: Exception) -> tuple[str, int]:
    """Return the text to print and the exit status.

    The status is 2 for input that can never be used, such as a run file; 3 for what the present
    state refuses, such as a run that another process holds, or a token; 1 for all other failures.

    Raises:
        Exception: `error` itself, if it is a bug.
    """
    from assay_shared.errors import AssayError, CallerError, Conflict, Forbidden, Unauthorized

    if isinstance(error, Conflict | Forbidden | Unauthorized):
        return str(error), 3
    if isinstance(error, AssayError):
        return str(error), 2 if isinstance(error, CallerError) else 1
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror or error}", 1
    raise error


if __name__ == "__main__":
    main()
