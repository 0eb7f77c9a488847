"""The words of a stage, checked against the commands of `assay` without running one."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import typer.main
from typer.exceptions import TyperException

from assay_shared.cli import app
from assay_shared.errors import InvalidInput
from assay_trainer.pipelines.stage_command import StagePlaces, option_words
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import (
    AnyStage,
    CommandStage,
    CompareStage,
    HandoffStage,
    MeasuringStage,
    PairsStage,
    RejectionStage,
    SFTDataStage,
)

#: The commands of kinds that take further options.
_COMMANDS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (MeasuringStage, ("evaluate",)),
    (CompareStage, ("compare",)),
    (HandoffStage, ("handoff",)),
    (SFTDataStage, ("data", "instructions")),
    (PairsStage, ("data", "pairs")),
    (RejectionStage, ("data", "rejection")),
)


def check_words(stage: AnyStage, own: StageFolder, places: StagePlaces, file: Path) -> None:
    """Check the command and the options that a stage names; `file` is the pipeline's.

    Raises:
        InvalidInput: `assay` has no such command or option, or the stage runs its own pipeline.
    """
    if isinstance(stage, CommandStage):
        field = f"stages.{own.name}.words"
        given, parameters, path = _parsed(stage.words, field)
        _check_whole(given, parameters, field)
        if path[:1] == ["pipeline"]:
            _check_other_pipeline(given, places, file, field)
        return
    options = getattr(stage, "options", None)
    command = next((words for kind, words in _COMMANDS if isinstance(stage, kind)), None)
    if options and command is not None:
        words = (*command, *option_words(options, own, places))
        _parsed(words, f"stages.{own.name}.options")


def _parsed(words: Sequence[str], field: str) -> tuple[dict[str, Any], list[Any], list[str]]:
    """Return the values by parameter, the parameters, and the command's names.

    Typer does not export the types of its commands.
    """
    command: Any = typer.main.get_command(app)
    parent, path, left = None, ["assay"], list(words)
    try:
        while True:
            context = command.context_class(command, parent=parent, info_name=path[-1])
            given, left, _ = command.make_parser(context).parse_args(left)
            if not hasattr(command, "resolve_command"):
                break
            if not left:
                raise InvalidInput(f"`{' '.join(path)}` needs a command", field=field)
            name, command, left = command.resolve_command(context, left)
            path, parent = [*path, name], context
        _check_values(given, command.params, context)
    except TyperException as error:
        told = error.format_message() if hasattr(error, "format_message") else str(error)
        raise InvalidInput(
            f"`{' '.join(path)}`: {told}", field=field, hint=f"see `{' '.join(path)} --help`"
        ) from None
    if left:
        told = f"`{' '.join(path)}` takes no further {' '.join(left)!r}"
        raise InvalidInput(told, field=field)
    return given, list(command.params), path[1:]


def _check_values(given: dict[str, Any], parameters: Sequence[Any], context: Any) -> None:
    """Raise a TyperException if a value is not of its parameter's type, such as a number.

    Paths are left out: an earlier stage may make one.
    """
    for one in parameters:
        kind = one.type_descriptor.annotation
        if given.get(one.name) is not None and Path not in (kind, *get_args(kind)):
            one.get_runtime_param().coerce(given[one.name], param=one, ctx=context)


def _check_whole(given: dict[str, Any], parameters: Sequence[Any], field: str) -> None:
    """Raise InvalidInput if a required argument or option is missing."""
    for one in parameters:
        variables = [one.envvar] if isinstance(one.envvar, str) else one.envvar or []
        is_set = any(name in os.environ for name in variables)
        if one.required and not given.get(one.name) and not is_set:
            name = one.opts[0] if one.opts[0].startswith("-") else one.opts[0].upper()
            raise InvalidInput(f"the command needs {name}", field=field)


def _check_other_pipeline(
    given: dict[str, Any], places: StagePlaces, file: Path, field: str
) -> None:
    """Raise InvalidInput if a command of pipelines is about the pipeline that runs it."""
    own = {file.resolve(), places.pipeline.resolve()}
    named = [given[key] for key in ("file", "folder") if isinstance(given.get(key), str)]
    found = [path.resolve() for one in named for path in (Path(one), places.files / one)]
    if not own.isdisjoint(found):
        raise InvalidInput(
            "the stage would run its own pipeline, which waits for it",
            field=field,
            hint="a stage of kind report is for the pipeline's own report",
        )
