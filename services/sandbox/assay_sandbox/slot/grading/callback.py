"""A function of the test code as the program sees it: its names, parameters and defaults."""

import inspect
import keyword
import types
from collections.abc import Callable
from typing import Any

_CALL = "__assay_call__"


def look(function: types.FunctionType) -> tuple[Any, ...]:
    """Return the look of a function, for `stand_in` to make a function of the same look."""
    code = function.__code__
    counts = (code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
    defaults = (function.__defaults__, function.__kwdefaults__)
    names = (function.__name__, function.__qualname__, function.__doc__)
    num_names = code.co_argcount + code.co_kwonlyargcount + 2
    return (*names, code.co_varnames[:num_names], counts, defaults)


def stand_in(call: Callable[..., Any], seen: tuple[Any, ...] | None) -> Callable[..., Any]:
    """Return a function with the look `seen`. The function hands its arguments on to `call`."""
    if seen is None:
        return call
    name, qualified_name, text, variables, counts, (defaults, keyword_defaults) = seen
    if not all(one.isidentifier() and not keyword.iskeyword(one) for one in variables):
        return call
    parameters, arguments = _signature(list(variables), *counts)
    source = f"lambda {parameters}: {_CALL}({arguments})"
    made = eval(compile(source, "test.py", "eval"), {_CALL: call, "__name__": "__main__"})
    made.__code__ = made.__code__.replace(co_name=name, co_qualname=qualified_name)
    made.__name__, made.__qualname__, made.__doc__ = name, qualified_name, text
    made.__defaults__, made.__kwdefaults__ = defaults, keyword_defaults
    return made  # type: ignore[no-any-return]


def _signature(
    names: list[str], num_positional_only: int, num: int, num_keyword_only: int, flags: int
) -> tuple[str, str]:
    """Return the parameters of a function, and the arguments to hand them on, as source text."""
    positional, rest = names[:num], names[num:]
    by_keyword, rest = rest[:num_keyword_only], rest[num_keyword_only:]
    parameters, arguments = list(positional), list(positional)
    if num_positional_only:
        parameters.insert(num_positional_only, "/")
    if flags & inspect.CO_VARARGS:
        more = f"*{rest.pop(0)}"
        parameters.append(more)
        arguments.append(more)
    elif by_keyword:
        parameters.append("*")
    parameters += by_keyword
    arguments += [f"{one}={one}" for one in by_keyword]
    if flags & inspect.CO_VARKEYWORDS:
        more = f"**{rest.pop(0)}"
        parameters.append(more)
        arguments.append(more)
    return ", ".join(parameters), ", ".join(arguments)
