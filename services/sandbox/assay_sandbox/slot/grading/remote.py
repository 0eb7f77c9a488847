"""The program's side of grading: it answers the grader's requests about the program's names.

Each message is a list, see `exchange`. From the grader:

    ("global", name)                    the value of a global name
    ("call", function, args, kwargs)    the function's return value
    ("attr", object, name)              the value of an attribute
    ("op", name, object, *args)         the return value of an entry of `_OPERATIONS`
    ("exec", code)                      run test code in here: forgeable, and marked so
    ("answer", value)                   the return value of a function of the test code
    ("throw", type, args)               the exception raised by the function instead
    ("refuse",)                         the function made a request impossible to grade

To the grader, with the program's global names if they have changed, else None:

    ("ready", names)
    ("value", value, names)
    ("raise", classes, args, text, error, state, cause, context, names)
    ("missing", names)                  the global name does not exist
    ("cannot", text, names)             the value cannot be sent
    ("callback", number, args, kwargs)

A value not sent as such is a handle: the number of an object kept in this process. All of this
runs in the program's process, and the program can forge any of it: it decides no more than the
return values of the program's functions.
"""

import builtins
import itertools
import operator
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from assay_sandbox.slot.grading import callback
from assay_sandbox.slot.messages import wire
from assay_sandbox.slot.messages.decoder import ValueDecoder
from assay_sandbox.slot.messages.encoder import Encoder
from assay_sandbox.slot.messages.exchange import Exchange
from assay_sandbox.slot.messages.wire import CannotEncode, CannotGrade
from assay_sandbox.slot.program import ending

#: Operations a grader may request of an object, as well as calls and attributes.
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bytes": bytes,
    "complex": complex,
    "delattr": delattr,
    "delitem": operator.delitem,
    "float": float,
    "format": format,
    "getitem": operator.getitem,
    "index": operator.index,
    "int": int,
    "invert": operator.invert,
    "isinstance": lambda kind, value: kind in type(value).__mro__,
    "issubclass": lambda kind, value: kind in value.__mro__,
    "iter": iter,
    "len": len,
    "neg": operator.neg,
    "next": next,
    "pos": operator.pos,
    "repr": repr,
    "reversed": lambda value: reversed(value),
    "round": round,
    "setattr": setattr,
    "setitem": operator.setitem,
    "str": str,
}
_BUILTINS = {
    id(value): name
    for name, value in vars(builtins).items()
    if callable(value) and not name.startswith("_")
}
_BUILTIN_VALUES = dict(vars(builtins))
_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
)
_EMPTY: list[Any] = [[], (), {}, set(), "", b"", range(0), {}.values(), {}.items()]
#: Exact types of objects equal only to themselves.
ITERATORS = (
    types.GeneratorType,
    map,
    filter,
    zip,
    enumerate,
    reversed,
    *(type(iter(one)) for one in _EMPTY),
    type(iter(range(2**70))),
    type(reversed([])),
    itertools.chain,
    itertools.count,
    itertools.cycle,
    itertools.islice,
    itertools.permutations,
    itertools.combinations,
    itertools.product,
    itertools.repeat,
    itertools.takewhile,
    itertools.accumulate,
)
_COMPARING = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"})
_SCALARS = (int, str, float)


#: Depth to which causes and contexts of an exception are sent.
_MAX_CAUSES = 3


class CallRefused(BaseException):
    """The grader gave up within a function of the test code called by the program."""


def scalar_base(value: Any) -> Any:
    """Return int, str or float for an object of a subclass comparing in the same way, else None."""
    bases = type.mro(type(value))
    for base in _SCALARS:
        if base in bases:
            plain = all(map(_compares_plainly, bases[: bases.index(base)]))
            return base if plain else None
    return None


def _compares_plainly(kind: type) -> bool:
    """Return True if a class leaves comparing to its bases, as enums do."""
    own = _COMPARING & kind.__dict__.keys()
    return not own or kind.__module__ == "enum"


def describe_kind(value: Any) -> str:
    """Return the kind of object a handle stands for."""
    kind = type(value)
    if isinstance(value, types.ModuleType):
        return "module"
    if issubclass(kind, type):
        return "error class" if BaseException in type.mro(value) else "class"
    if kind in _FUNCTIONS:
        return "function"
    if kind in ITERATORS:
        return "iterator"
    if kind is re.Match:
        return "match"
    return "callable" if any("__call__" in one.__dict__ for one in kind.__mro__) else "object"


def library_name(value: Any) -> tuple[str, str] | None:
    """Return module and name of a function or class of the standard library or numpy, else None."""
    if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module == "__main__":
        return None
    if module.partition(".")[0] not in (*sys.stdlib_module_names, "numpy"):
        return None
    found: Any = sys.modules.get(module)
    return (module, name) if getattr(found, name, None) is value else None


class ProgramRemote:
    """Server of the program's names, until the grader is gone."""

    def __init__(self, namespace: dict[str, Any], channel_fd: int) -> None:
        self._namespace = namespace
        self._exchange = Exchange(channel_fd, self._put, self._get)
        self._numbers: dict[int, int] = {}
        self._objects: list[Any] = []
        self._callbacks: dict[int, Callable[..., Any]] = {}
        self._callback_numbers: dict[int, int] = {}
        self._num_names = -1
        self._pid = os.getpid()

    def serve(self) -> None:
        self._exchange.send(["ready", self._new_names()])
        while self._take_one() is None:
            pass

    def _take_one(self) -> list[Any] | None:
        """Answer a message; or return it, if it ends the wait of a callback or of the server."""
        try:
            message = self._exchange.receive()
        except (Exception, CannotGrade) as error:
            self._give_up(f"arguments: {error}")
            return None
        if message is None:
            return ["gone"]
        if message[0] in ("answer", "throw", "refuse"):
            return message
        self._answer(message)
        return None

    def _answer(self, message: list[Any]) -> None:
        """Answer a request, and keep no reference to any value: see `Exchange`."""
        try:
            wire.need_frames()
            if message[0] == "global" and message[1] not in self._namespace:
                reply: list[Any] = ["missing"]
            else:
                reply = ["value", self._do(*message)]
        except BaseException as error:
            reply = self._describe(error)
        if os.getpid() != self._pid:
            ending.flush()
            os._exit(0)  # a fork: only the program itself answers
        message.clear()
        reply.append(self._new_names())
        try:
            self._exchange.send(reply)
        except CannotEncode as error:
            self._give_up(str(error))
        except OSError:
            raise
        except BaseException as error:
            self._give_up(f"the value cannot be sent: {type(error).__name__}")

    def _give_up(self, reason: str) -> None:
        self._exchange.send(["cannot", reason, None], with_changes=False)

    def _do(self, kind: str, *rest: Any) -> Any:
        if kind == "call":
            function, args, kwargs = rest
            return function(*args, **kwargs)
        if kind == "global":
            return self._namespace[rest[0]]
        if kind == "attr":
            return getattr(*rest)
        if kind == "set":
            self._namespace[rest[0]] = rest[1]
            return None
        if kind == "import":
            __import__(rest[1])
            self._namespace[rest[0]] = sys.modules[rest[1]]
            return None
        if kind == "delete":
            del self._namespace[rest[0]]
            self._num_names = -1
            return None
        if kind == "exec":
            exec(compile(rest[0], "test.py", "exec", dont_inherit=True), self._namespace)
            return None
        return _OPERATIONS[rest[0]](*rest[1:])

    def _new_names(self) -> tuple[str, ...] | None:
        if len(self._namespace) == self._num_names:
            return None
        self._num_names = len(self._namespace)
        return tuple(name for name in list(self._namespace) if type(name) is str)

    def _describe(self, error: BaseException, depth: int = 0) -> list[Any]:
        kind = type(error)
        is_builtin = _BUILTIN_VALUES.get(kind.__name__) is kind
        is_known = is_builtin or library_name(kind) is not None
        try:
            text = str(error)[:2000]
        except BaseException:
            text = ""
        args, state = _parts(error) if is_known else (_plain(error.args), None)
        cause, context = error.__cause__, error.__context__
        is_cause = context is not None and context is cause
        described = True if is_cause else self._describe_another(context, depth)
        around = (described, bool(error.__suppress_context__))
        classes = (None if is_builtin else kind, _class_names(kind))
        own = None if is_known else error
        caused = self._describe_another(cause, depth)
        return ["raise", classes, args, text, own, state, caused, around]

    def _describe_another(self, error: BaseException | None, depth: int) -> list[Any] | None:
        """Return a description of an error's cause or context; None if absent or too deep."""
        if error is None or depth >= _MAX_CAUSES:
            return None
        return self._describe(error, depth + 1)[1:]

    # Values without an encoding.

    def _put(self, encoder: Encoder, value: Any, depth: int) -> None:
        name = _BUILTINS.get(id(value))
        if name is not None:
            encoder.put_text(b"B", name.encode())
            return
        number = self._callback_numbers.get(id(value))
        if number is not None:
            encoder.write(b"y")
            encoder.put(number, depth + 1)
            return
        if not isinstance(value, type):
            base = scalar_base(value)
            if base is not None:
                encoder.write(b"S")
                encoder.put(base.__add__(value, base()), depth + 1)
                self._put_handle(encoder, value, depth)
                return
        library = library_name(value)
        if library is not None:
            encoder.write(b"G")
            encoder.put(library, depth + 1)
            return
        self._put_handle(encoder, value, depth)

    def _put_handle(self, encoder: Encoder, value: Any, depth: int) -> None:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        kind = describe_kind(value)
        named = value if isinstance(value, type | types.ModuleType) else type(value)
        bases: tuple[type, ...] = ()
        if kind == "error class":
            bases = value.__bases__
        encoder.write(b"H")
        encoder.put((number, kind, str(named.__name__), bases), depth + 1)

    def _get(self, decoder: ValueDecoder, tag: bytes) -> Any:
        if tag == b"h":
            return self._objects[decoder.whole(0, int)]
        if tag == b"B":
            return _BUILTIN_VALUES[decoder.text().decode()]
        if tag == b"G":
            module, name = decoder.whole(0, tuple)
            __import__(module)
            return getattr(sys.modules[module], name)
        if tag == b"I":
            return iter(decoder.items(0))
        if tag == b"C":
            return self._callback(*decoder.whole(0, tuple))
        raise wire.MalformedMessage("an unknown value")

    def _callback(self, number: int, seen: tuple[Any, ...] | None) -> Callable[..., Any]:
        """Return the stand-in for a function of the test code, always the same for a number."""
        made = self._callbacks.get(number)
        if made is None:
            made = self._callbacks[number] = callback.stand_in(self._calling(number), seen)
            self._callback_numbers[id(made)] = number
        return made

    def _calling(self, number: int) -> Callable[..., Any]:

        def call(*args: Any, **kwargs: Any) -> Any:
            wire.need_frames()
            self._exchange.send(["callback", number, args, kwargs])
            answer = None
            while answer is None:
                answer = self._take_one()
            if answer[0] == "answer":
                return answer[1]
            if answer[0] == "throw":
                raise answer[1](*answer[2])
            raise CallRefused

        return call


def serve(names: dict[str, Any], channel_fd: int) -> None:
    """Answer a grader's requests about a program's names until the grader is gone."""
    ProgramRemote(names, channel_fd).serve()


def _class_names(kind: type) -> tuple[str, ...]:
    """Return the names of a class and its bases, marked if only the name is a builtin's."""
    return tuple(
        one.__name__
        if _BUILTIN_VALUES.get(one.__name__, one) is one
        else f"{one.__module__}.{one.__name__}"
        for one in type.mro(kind)
    )


def _parts(error: BaseException) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    """Return the constructor's arguments and the attributes of an exception of a known class."""
    try:
        reduced = error.__reduce__()
    except Exception:
        reduced = ""
    if type(reduced) is not tuple or len(reduced) < 2:
        return _plain(error.args), None
    state = reduced[2] if len(reduced) > 2 else None
    return _plain(reduced[1]), state if type(state) is dict else None


def _plain(args: Any) -> tuple[Any, ...]:
    return args if type(args) is tuple else ()
