"""A tiny reference interpreter that runs every path of a workflow.

Operators have no model: `Test` gives either truth, `Custom` either `yes` or `no`. Each run replays
a list of outcomes and takes the first outcome after its end; `all_runs` tries the others in turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from assay_reward.workflows.language.tree import (
    AllOf,
    AnyOf,
    Append,
    Assign,
    BooleanValue,
    Break,
    Compared,
    Containment,
    Expression,
    FieldOf,
    If,
    ListValue,
    Loop,
    Negation,
    NumberValue,
    OperatorCall,
    Parallel,
    Position,
    RecordValue,
    Return,
    Statement,
    TextValue,
    Variable,
    Workflow,
)

Names = dict[str, object]
Kind = TypeVar("Kind")


class UnsetName(Exception):
    """A read of a name that is not set."""

    def __init__(self, name: str, position: Position) -> None:
        super().__init__(name, position)
        self.name, self.position = name, position


class WrongKind(Exception):
    """A value of a type that its place does not take."""


class TooManyPaths(Exception):
    """A workflow has more paths than the limit."""


@dataclass(frozen=True)
class Run:
    """One path: its operator outcomes, and the result or the unset read that ended it."""

    outcomes: tuple[int, ...]
    result: object = None
    unset: tuple[str, Position] | None = None
    wrong_kind: bool = False


class _Break(Exception):
    pass


class _Return(Exception):
    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


def all_runs(tree: Workflow, limit: int) -> list[Run]:
    """Return the run of every path.

    Raises:
        TooManyPaths: there are more than `limit`.
    """
    runs: list[Run] = []
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        start = waiting.pop()
        run = _PathRunner(start).run(tree)
        runs.append(run)
        if len(runs) > limit:
            raise TooManyPaths
        # Every outcome after the start was 0; each has one alternative.
        later = range(len(start), len(run.outcomes))
        waiting.extend((*run.outcomes[:index], 1) for index in later)
    return runs


class _PathRunner:
    def __init__(self, start: Sequence[int]) -> None:
        self._start = start
        self._outcomes: list[int] = []

    def run(self, tree: Workflow) -> Run:
        try:
            self._block(tree.body, {"problem": "the problem"})
        except _Return as end:
            return Run(tuple(self._outcomes), result=end.value)
        except UnsetName as error:
            return Run(tuple(self._outcomes), unset=(error.name, error.position))
        except WrongKind:
            return Run(tuple(self._outcomes), wrong_kind=True)
        raise AssertionError("the workflow ended without a return")

    def _outcome(self) -> int:
        index = len(self._outcomes)
        self._outcomes.append(self._start[index] if index < len(self._start) else 0)
        return self._outcomes[-1]

    def _block(self, steps: Sequence[Statement], names: Names) -> None:
        for step in steps:
            self._step(step, names)

    def _step(self, step: Statement, names: Names) -> None:
        match step:
            case Assign(name=name, value=value):
                names[name] = self._value(value, names)
            case Append(name=name, item=item):
                text = _of(str, self._value(item, names))
                texts: list[object] = _of(list, _looked_up(name, step.position, names))
                names[name] = [*texts, text]
            case If(condition=condition, then=then, otherwise=otherwise):
                self._block(then if self._truth(condition, names) else otherwise, names)
            case Loop():
                self._loop(step, names)
            case Parallel(branches=branches):
                results: Names = {}
                for branch in branches:
                    inner = dict(names)
                    self._block(branch.body, inner)
                    results[branch.target] = self._value(branch.result, inner)
                names.update(results)
            case Break():
                raise _Break
            case Return(value=value):
                raise _Return(_of(str, self._value(value, names)))

    def _loop(self, step: Loop, names: Names) -> None:
        for number in range(step.times):
            if step.index is not None:
                names[step.index] = number
            if step.condition is not None and not self._truth(step.condition, names):
                return
            try:
                self._block(step.body, names)
            except _Break:
                return

    def _truth(self, condition: Expression, names: Names) -> bool:
        return bool(_of(bool, self._value(condition, names)))

    def _value(self, value: Expression | OperatorCall, names: Names) -> object:
        match value:
            case OperatorCall():
                return self._call(value, names)
            case Variable(name=name):
                return _looked_up(name, value.position, names)
            case FieldOf(name=name, field=field):
                record: Names = _of(dict, _looked_up(name, value.position, names))
                if field not in record:
                    raise WrongKind
                return record[field]
            case TextValue(parts=parts):
                return "".join(
                    part if isinstance(part, str) else _shown(self._value(part, names))
                    for part in parts
                )
            case NumberValue(value=plain) | BooleanValue(value=plain):
                return plain
            case ListValue(items=items):
                return [_of(str, self._value(item, names)) for item in items]
            case RecordValue(fields=fields):
                return {one.name: self._value(one.value, names) for one in fields}
            case _:
                return self._condition(value, names)

    def _condition(self, value: Expression, names: Names) -> bool:
        match value:
            case AllOf(conditions=conditions):
                return all(self._truth(one, names) for one in conditions)
            case AnyOf(conditions=conditions):
                return any(self._truth(one, names) for one in conditions)
            case Negation(condition=condition):
                return not self._truth(condition, names)
            case Containment(item=item, container=container):
                part = _of(str, self._value(item, names))
                around = self._value(container, names)
                return part in (around if isinstance(around, str) else _of(list, around))
            case Compared(sign=sign, left=left, right=right):
                return _compared(sign, self._value(left, names), self._value(right, names))
        raise WrongKind

    def _call(self, call: OperatorCall, names: Names) -> Names:
        for argument in call.arguments:
            _of(str, self._value(argument.value, names))
        if call.operator == "Test":
            return {"result": bool(self._outcome()), "solution": "tested"}
        return {"response": ("yes", "no")[self._outcome()]}


def _looked_up(name: str, position: Position, names: Names) -> object:
    if name not in names:
        raise UnsetName(name, position)
    return names[name]


def _of(kind: type[Kind], value: object) -> Kind:
    if not isinstance(value, kind):
        raise WrongKind
    return value


def _shown(value: object) -> str:
    return value if isinstance(value, str) else str(_number(value))


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else _of(float, value)


def _compared(sign: str, left: object, right: object) -> bool:
    if sign in ("==", "!="):
        if type(left) is not type(right) or isinstance(left, dict | list):
            raise WrongKind
        return (left == right) == (sign == "==")
    one, other = _number(left), _number(right)
    return {"<": one < other, ">": one > other}[sign]


def positions(runs: Sequence[Run]) -> Iterator[tuple[str, Position]]:
    """Return the unset reads of the runs."""
    return (run.unset for run in runs if run.unset is not None)
