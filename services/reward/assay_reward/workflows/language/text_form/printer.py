"""Writes a tree in canonical text form: `parse_text(text_form(tree)) == tree`."""

from collections.abc import Iterable, Iterator, Sequence

from assay_reward.workflows.language.spelling.conditions import condition_text
from assay_reward.workflows.language.spelling.numbers import number_text
from assay_reward.workflows.language.spelling.strings import escaped
from assay_reward.workflows.language.text_form.additions import with_brackets
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
    Return,
    Statement,
    TextValue,
    Variable,
    Workflow,
)

_INDENT = "  "


def text_form(tree: Workflow) -> str:
    """Return the canonical text of a workflow, with a line feed at its end."""
    return "".join(f"{line}\n" for line in _lines(with_brackets(tree).body))


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
            yield f"{name} += {expression_text(item)}"
        case Return(value=value):
            yield f"return {expression_text(value)}"
        case Break():
            yield "break"
        case If():
            yield from _if_lines(step)
        case Loop():
            yield from _loop_lines(step)
        case Parallel(branches=branches):
            yield "parallel"
            for branch in branches:
                yield from _indented(_branch_lines(branch))
            yield "end"


def _if_lines(step: If) -> Iterator[str]:
    yield f"if {expression_text(step.condition)}"
    yield from _indented(_lines(step.then))
    match step.otherwise:
        case ():
            yield "end"
        case (If() as other,):
            first, *rest = _if_lines(other)
            yield f"else {first}"
            yield from rest
        case _:
            yield "else"
            yield from _indented(_lines(step.otherwise))
            yield "end"


def _loop_lines(step: Loop) -> Iterator[str]:
    index = f" as {step.index}" if step.index else ""
    condition = f" while {expression_text(step.condition)}" if step.condition else ""
    yield f"repeat {step.times}{index}{condition}"
    yield from _indented(_lines(step.body))
    yield "end"


def _branch_lines(branch: Branch) -> Iterator[str]:
    if not branch.body:
        yield f"{branch.target} = {_value(branch.result)}"
        return
    yield f"branch {branch.target}"
    yield from _indented(_lines(branch.body))
    yield f"{_INDENT}give {_value(branch.result)}"
    yield "end"


def _value(value: Expression | OperatorCall) -> str:
    if isinstance(value, OperatorCall):
        return f"{value.operator}({_arguments(value.arguments, '=')})"
    return expression_text(value)


def _arguments(arguments: Sequence[Argument], sign: str) -> str:
    return ", ".join(f"{one.name}{sign}{expression_text(one.value)}" for one in arguments)


def expression_text(value: Expression) -> str:
    """Return a value or condition in text form."""
    return condition_text(value, _simple)


def _simple(value: Expression) -> str:
    match value:
        case Variable(name=name):
            return name
        case FieldOf(name=name, field=field):
            return f"{name}.{field}"
        case TextValue(parts=parts):
            inner = (
                escaped(part, braces=True) if isinstance(part, str) else f"{{{_simple(part)}}}"
                for part in parts
            )
            return f'"{"".join(inner)}"'
        case NumberValue(value=number):
            return number_text(number)
        case BooleanValue(value=truth):
            return "true" if truth else "false"
        case ListValue(items=items):
            return f"[{', '.join(map(expression_text, items))}]"
        case RecordValue(fields=fields):
            return f"{{{_arguments(fields, ': ')}}}"
        case _:
            raise TypeError(f"{type(value).__name__} is not a value")
