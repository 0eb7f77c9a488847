"""Actions of a policy: their names, their syntax, and the instructions for the policy."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

#: Longer arguments are cut when a message quotes them.
_QUOTED_LENGTH = 60
_MAX_NUMBER_LENGTH = 40
_MARK = "Action:"
_CALL = re.compile(r"([A-Z_]+)\(([^()]*)\)")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_INFINITE = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


class ActionName(StrEnum):
    """All actions: the first two only inspect the model, the next four edit it."""

    GET_IIS = "GET_IIS"
    CHECK_SLACK = "CHECK_SLACK"
    RELAX = "RELAX"
    DROP = "DROP"
    UPDATE_RHS = "UPDATE_RHS"
    UPDATE_BOUNDS = "UPDATE_BOUNDS"
    RESET = "RESET"
    SUBMIT = "SUBMIT"


class Parameter(StrEnum):
    """Parameters of actions. `names`: any number of names of rows or columns."""

    ROW = "row"
    COLUMN = "column"
    AMOUNT = "amount"
    VALUE = "value"
    LOWER = "lower"
    UPPER = "upper"
    NAMES = "names..."


@dataclass(frozen=True)
class ActionKind:
    """Parameters, example and meaning of an action, as told to the policy."""

    parameters: tuple[Parameter, ...]
    example: str
    meaning: str


ACTIONS: dict[ActionName, ActionKind] = {
    ActionName.GET_IIS: ActionKind(
        (),
        "GET_IIS()",
        "list an irreducible infeasible subset: rows and bounds that cannot all hold, "
        "though any of them fewer can",
    ),
    ActionName.CHECK_SLACK: ActionKind(
        (Parameter.ROW,),
        "CHECK_SLACK(c3)",
        "the row's activity and slack; in an infeasible model, at the point of least violation",
    ),
    ActionName.RELAX: ActionKind(
        (Parameter.ROW, Parameter.AMOUNT),
        "RELAX(c3, 2.5)",
        "move the row's sides outwards by an amount above 0: <= up, >= down, = and ranges both",
    ),
    ActionName.DROP: ActionKind((Parameter.ROW,), "DROP(c3)", "remove the row"),
    ActionName.UPDATE_RHS: ActionKind(
        (Parameter.ROW, Parameter.VALUE),
        "UPDATE_RHS(c3, 10)",
        "set the right-hand side of a row that has one; not for ranges",
    ),
    ActionName.UPDATE_BOUNDS: ActionKind(
        (Parameter.COLUMN, Parameter.LOWER, Parameter.UPPER),
        "UPDATE_BOUNDS(x2, 0, inf)",
        "set both bounds of a variable; -inf and inf stand for none",
    ),
    ActionName.RESET: ActionKind((), "RESET()", "undo all edits"),
    ActionName.SUBMIT: ActionKind(
        (Parameter.NAMES,),
        "SUBMIT(c3, x2)",
        "end, naming the rows and variables that are the root cause",
    ),
}


@dataclass(frozen=True)
class Action:
    """A well-formed action; its names are not yet checked against the model.

    `target` is the row or column, `values` the numbers in order, `names` the names of SUBMIT.
    """

    name: ActionName
    target: str = ""
    values: tuple[float, ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        target = (self.target,) if self.target else ()
        arguments = (*target, *(format(value, ".10g") for value in self.values), *self.names)
        return f"{self.name}({', '.join(arguments)})"


class InvalidTurn(Exception):
    """A reply without effect; the message names the fault and the right form.

    It never leaves this package, because a fault of the policy is a score and not an error.
    """


def parse_action(reply: str) -> Action:
    """Return the only action of a reply, from its last non-empty line.

    Raises:
        InvalidTurn: there is no action, or more than one, or it does not follow `ACTIONS`.
    """
    lines = [line.strip() for line in reply.strip().splitlines()]
    marked = [line for line in lines if line.startswith(_MARK)]
    if len(marked) != 1:
        found = "no line" if not marked else f"{len(marked)} lines"
        raise InvalidTurn(
            f"{found} of your reply start with `Action:`; end it with exactly one such line, "
            "for example `Action: GET_IIS()`"
        )
    if lines[-1] != marked[0]:
        raise InvalidTurn("text follows the line `Action: ...`; let it be the last line")
    return _parse_call(marked[0].removeprefix(_MARK).strip())


def _parse_call(text: str) -> Action:
    call = _CALL.fullmatch(text)
    if call is None:
        raise InvalidTurn(f"{_quoted(text)} is not of the form NAME(arguments), as in DROP(c3)")
    name, inside = call.groups()
    if name not in ACTIONS:
        raise InvalidTurn(f"no action is called {_quoted(name)}; there are {', '.join(ACTIONS)}")
    arguments = tuple(part.strip() for part in inside.split(",")) if inside.strip() else ()
    return _read_arguments(ActionName(name), arguments)


def _read_arguments(name: ActionName, arguments: tuple[str, ...]) -> Action:
    kind = ACTIONS[name]
    if "" in arguments:
        raise InvalidTurn(f"an argument of {name} is empty; write it like {kind.example}")
    if kind.parameters == (Parameter.NAMES,):
        return Action(name, names=_distinct(arguments))
    if len(arguments) != len(kind.parameters):
        raise InvalidTurn(
            f"{name} takes {_count(len(kind.parameters))}, not {len(arguments)}; "
            f"write it like {kind.example}"
        )
    target, values = "", []
    for parameter, argument in zip(kind.parameters, arguments, strict=True):
        if parameter in (Parameter.ROW, Parameter.COLUMN):
            target = argument
        else:
            values.append(_read_number(parameter, argument))
    _check_bounds(name, values)
    return Action(name, target, tuple(values))


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InvalidTurn(f"{_quoted(twice)} is listed twice; name each once")
    return names


def _read_number(parameter: Parameter, text: str) -> float:
    if parameter in (Parameter.LOWER, Parameter.UPPER) and text in _INFINITE:
        return _INFINITE[text]
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        raise InvalidTurn(f"{parameter} must be a number such as 2.5, not {_quoted(text)}")
    value = float(text)
    if not math.isfinite(value):
        raise InvalidTurn(f"{parameter} is too large: {_quoted(text)}")
    if parameter is Parameter.AMOUNT and value <= 0:
        raise InvalidTurn(f"amount must be above 0, not {_quoted(text)}: RELAX only widens a row")
    return value


def _check_bounds(name: ActionName, values: list[float]) -> None:
    if name is not ActionName.UPDATE_BOUNDS:
        return
    lower, upper = values
    if lower > upper or lower == math.inf or upper == -math.inf:
        raise InvalidTurn(f"lower must be at most upper, not {lower:g} and {upper:g}")


def _count(number: int) -> str:
    return {0: "no argument", 1: "1 argument"}.get(number, f"{number} arguments")


def _quoted(text: str) -> str:
    shown = text if len(text) <= _QUOTED_LENGTH else text[:_QUOTED_LENGTH] + "..."
    return f"`{shown}`"


def instructions(max_turns: int) -> str:
    """Return the instructions for the policy, made from `ACTIONS`."""
    return "\n".join(_instruction_lines(max_turns))


def _instruction_lines(max_turns: int) -> Iterator[str]:
    yield "The optimisation model below is infeasible. Find what is wrong in it and repair that,"
    yield "so that it has an optimal solution again and everything that was right in it stays."
    yield ""
    yield "Reply with your reasoning, if any, and then one action on the last line:"
    yield "Action: NAME(arguments)"
    yield ""
    yield "The actions:"
    for name, kind in ACTIONS.items():
        yield f"- {name}({', '.join(kind.parameters)}): {kind.meaning}. Example: {kind.example}"
    yield ""
    yield f"You have {max_turns} replies. One that holds no action, or several, or one that cannot"
    yield "be done, costs a reply and changes nothing."
