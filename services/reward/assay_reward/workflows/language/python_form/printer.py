"""Writes a tree in canonical Python form: `parse_python(python_form(tree)) == tree`."""

from collections.abc import Iterable, Iterator, Sequence

from assay_reward.workflows.language.names import INPUT
from assay_reward.workflows.language.spelling.conditions import condition_text
from assay_reward.workflows.language.spelling.numbers import number_text
from assay_reward.workflows.language.spelling.strings import escaped
from assay_reward.workflows.language.tree import (
    Append,
    Argument,
    Assign,
    BooleanValue,
    Branch,
    Break,
    Expression,
    FieldOf,
    If,
    ListValue,
    Loop,
    NumberValue,
    OperatorCall,
    Parallel,
    RecordValue,
    Reference,
    Return,
    Statement,
    TextValue,
    Variable,
    Workflow,
    negated,
)

_INDENT = "    "


def python_form(tree: Workflow) -> str:
    """Return the canonical Python of a workflow, with a line feed at its end."""
    lines = (f"async def workflow({INPUT}):", *_indented(_lines(tree.body)))
    return "".join(f"{line}\n" for line in lines)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _lines(steps: Sequence[Statement]) -> Iterator[str]:
    for step in steps:
        yield from _step_lines(step)


def _step_lines(step: Statement) -> Iterator[str]:
    match step:
        case Assign(name=name, value=value):
            yield f"{name} = {_value(value)}"
        case Append(name=name, item=item):
            yield f"{name}.append({expression_python(item)})"
        case Return(value=value):
            yield f"return {expression_python(value)}"
        case Break():
            yield "break"
        case If():
            yield from _if_lines(step, "if")
        case Loop():
            yield from _loop_lines(step)
        case Parallel(branches=branches):
            for branch in branches:
                if not _is_short(branch):
                    yield from _function_lines(branch)
            targets = ", ".join(branch.target for branch in branches)
            calls = ", ".join(map(_branch_call, branches))
            yield f"{targets} = await asyncio.gather({calls})"


def _if_lines(step: If, word: str) -> Iterator[str]:
    yield f"{word} {expression_python(step.condition)}:"
    yield from _indented(_lines(step.then))
    match step.otherwise:
        case ():
            return
        case (If() as other,):
            yield from _if_lines(other, "elif")
        case _:
            yield "else:"
            yield from _indented(_lines(step.otherwise))


def _loop_lines(step: Loop) -> Iterator[str]:
    yield f"for {step.index or '_'} in range({step.times}):"
    if step.condition is not None:
        yield f"{_INDENT}if {expression_python(negated(step.condition))}:"
        yield f"{_INDENT * 2}break"
    yield from _indented(_lines(step.body))


def _is_short(branch: Branch) -> bool:
    return not branch.body and isinstance(branch.result, OperatorCall)


def _function_lines(branch: Branch) -> Iterator[str]:
    yield f"async def _branch_{branch.target}():"
    yield from _indented(_lines(branch.body))
    yield f"{_INDENT}return {_value(branch.result)}"


def _branch_call(branch: Branch) -> str:
    if _is_short(branch) and isinstance(branch.result, OperatorCall):
        return _call(branch.result)
    return f"_branch_{branch.target}()"


def _value(value: Expression | OperatorCall) -> str:
    if isinstance(value, OperatorCall):
        return f"await {_call(value)}"
    return expression_python(value)


def _call(call: OperatorCall) -> str:
    return f"{call.operator}({', '.join(map(_argument, call.arguments))})"


def _argument(argument: Argument) -> str:
    return f"{argument.name}={expression_python(argument.value)}"


def expression_python(value: Expression) -> str:
    """Return a value or condition in Python form."""
    return condition_text(value, _simple)


def _simple(value: Expression) -> str:
    match value:
        case Variable() | FieldOf():
            return _reference(value, '"')
        case TextValue(parts=parts):
            return _text(parts)
        case NumberValue(value=number):
            return number_text(number)
        case BooleanValue(value=truth):
            return str(truth)
        case ListValue(items=items):
            return f"[{', '.join(map(expression_python, items))}]"
        case RecordValue(fields=fields):
            shown = (f'"{one.name}": {expression_python(one.value)}' for one in fields)
            return f"{{{', '.join(shown)}}}"
        case _:
            raise TypeError(f"{type(value).__name__} is not a value")


def _reference(value: Reference, quote: str) -> str:
    if isinstance(value, FieldOf):
        return f"{value.name}[{quote}{value.field}{quote}]"
    return value.name


def _text(parts: Sequence[str | Reference]) -> str:
    """Return a text; the quotes of fields differ from its own, as CPython 3.11 demands."""
    holes = any(not isinstance(part, str) for part in parts)
    inner = (
        escaped(part, braces=holes) if isinstance(part, str) else f"{{{_reference(part, chr(39))}}}"
        for part in parts
    )
    return f'{"f" if holes else ""}"{"".join(inner)}"'
