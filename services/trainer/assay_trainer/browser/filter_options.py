"""The filters of samples as options of a command."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

_HELP = {
    "outcome": "accepted, wrong_answer, ...; failed; failed:judge.",
    "task": "Part of the task's name.",
    "tag": "A tag of the task, as domain:code.",
    "component": "A reward component, as tests or 'tests<0.5'.",
    "text": "Part of the answer or of a failure's message.",
    "step": "A step or a range, as 7 or 3-9.",
    "reason": "Why a group was discarded: no_signal, too_old, ...",
    "kept": "trained, discarded or superseded.",
}


def takes_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each filter in the place of its parameter `given`."""

    def run(**values: Any) -> None:
        from assay_trainer.browser.reading.filters import SampleFilter

        given = SampleFilter(**{name: values.pop(name) for name in _HELP})
        command(given=given, **values)

    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(command).parameters.values():
        parameters += _options() if one.name == "given" else [one]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    # typer reads the options from these two.
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _options() -> list[inspect.Parameter]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [
        inspect.Parameter(
            name, kind, default="", annotation=Annotated[str, typer.Option(help=told)]
        )
        for name, told in _HELP.items()
    ]
