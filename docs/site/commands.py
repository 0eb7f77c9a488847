"""Pages of the commands, written from the command line's own description."""

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import typer
import typer.main

from assay_shared.cli import GROUP, app, summary


def command_pages() -> dict[str, str]:
    """Return a page's text for each command of `assay`, by the command's name."""
    root: Any = typer.main.get_command(app)
    context = typer.Context(root, info_name="assay")
    pages = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        command = root.get_command(context, entry.name)
        parts = list(_parts(command, f"assay {entry.name}", depth=1))
        pages[entry.name] = "\n".join(parts)
    return pages


def command_summaries() -> dict[str, str]:
    """Return the first sentence of each command, by its name."""
    return {entry.name: summary(entry) for entry in entry_points(group=GROUP)}


def _parts(command: Any, name: str, depth: int) -> Iterator[str]:
    """Yield the parts of a command's page, then those of the commands in it."""
    yield f"{'#' * depth} {name}\n"
    yield f"{_text(command.help or '')}\n"
    inner = getattr(command, "commands", {})
    if not inner:
        context = typer.Context(command, info_name=name)
        yield f"```text\n{name} {' '.join(_usage(command, context))}\n```\n"
        yield from _table(command, context)
    for each in inner.values():
        yield from _parts(each, f"{name} {each.name}", depth + 1)


def _usage(command: Any, context: typer.Context) -> Iterator[str]:
    """Yield the words behind a command's name: options, then its arguments."""
    yield "[OPTIONS]"
    for param in command.params:
        yield from param.get_usage_pieces(context)


def _table(command: Any, context: typer.Context) -> Iterator[str]:
    rows = [_row(param, context) for param in command.params if param.name != "help"]
    if rows:
        yield "| name | type | default | |\n|---|---|---|---|"
        yield "\n".join(rows) + "\n"


def _row(param: Any, context: typer.Context) -> str:
    """Return a table's row for an argument or option."""
    if param.param_type_name == "argument":
        names = [str(param.name)]
    else:
        names = [*param.opts, *param.secondary_opts]
    default = "required" if param.required else _default(param.default)
    told = _text(getattr(param, "help", None) or "")
    kind = str(param.display_type(context)).strip("<>")
    return f"| {' '.join(f'`{name}`' for name in names)} | {_text(kind)} | {default} | {told} |"


def _default(value: Any) -> str:
    if value is None or value == () or callable(value):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _text(text: str) -> str:
    """Return a help text as Markdown: signs of tables and of HTML as they are."""
    text = text.replace("|", "\\|").replace("<", "\\<").replace("[", "\\[").replace("*", "\\*")
    return text.strip()
