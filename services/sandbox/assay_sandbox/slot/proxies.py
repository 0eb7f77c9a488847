"""The grader's side of a program's names: values as they are, and stand-ins for other objects.

A stand-in passes calls, attributes, items and iteration on to the program's process. It refuses
whatever would let that process decide a verdict: comparing, truth, hashing, arithmetic.
"""

import builtins
import itertools
import sys
import types
from typing import Any, NoReturn

from assay_sandbox.slot import wire
from assay_sandbox.slot.wire import CannotEncode, CannotGrade, Decoder, Encoder, Malformed

#: Modules that test code may use here: what they do touches nothing but their arguments.
PURE_MODULES = frozenset(
    ["abc", "bisect", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq", "itertools", "json", "math", "numbers", "numpy", "operator", "re", "statistics", "string", "textwrap", "typing", "types", "__future__", "scipy", "sympy", "pandas", "networkx", "sklearn", "hashlib", "base64", "pprint", "calendar", "random", "time", "secrets", "uuid", "typing_extensions", "mpmath", "difflib", "zlib", "binascii", "struct", "array", "unicodedata"]
)
#: Names with which a program could pass for what test code compares by.
_COMPARERS = frozenset(
    {"isclose", "fabs", "allclose", "array_equal", "approx", "numpy", "np", "pd", "pandas", "sp"}
)
_HELPERS = frozenset(dir(builtins)) | sys.stdlib_module_names | _COMPARERS
#: Methods that are told what is expected.
_TELLING = frozenset(
    ["startswith", "endswith", "count", "issubset", "issuperset", "isdisjoint", "difference", "symmetric_difference", "equals", "match", "fullmatch", "almost_equals"]
)
_DECIDING = frozenset(
    ["__class__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__hash__", "__contains__", "__reduce__", "__reduce_ex__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__mod__", "__and__", "__or__", "__xor__"]
)
_UNSAFE_BUILTINS = frozenset(
    ["exec", "eval", "compile", "open", "input", "breakpoint", "exit", "quit", "globals", "locals", "vars", "setattr", "delattr", "__import__", "help", "memoryview"]
)
_MAX_CONSUMED = 10**6
_CONSUMED = (
    types.GeneratorType,
    map,
    filter,
    zip,
    enumerate,
    *(type(iter(one)) for one in ([], (), {}, set(), "", range(0))),
)


class ProgramLost(BaseException):
    """The program's process is gone."""


class OutOfMemory(MemoryError):
    """The program has run out of its memory."""


class Handle:
    """An object that stays in the program's process."""

    __slots__ = ("__weakref__", "_assay")

    def __init__(self, *facts: Any) -> None:
        if len(facts) != 1 or not isinstance(facts[0], Facts):
            raise CannotGrade("a class of the program has a subclass")
        object.__setattr__(self, "_assay", facts[0])

    def __getattribute__(self, name: str) -> Any:
        facts = _facts(self)
        if name in _DECIDING:
            facts.refuse("%s of an object of the program's" % name)
        value = facts.program.ask("attr", self, name)
        if isinstance(value, Handle):
            _facts(value).name = name
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        _facts(self).program.ask("op", "setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        _facts(self).program.ask("op", "delattr", self, name)

    def __iter__(self) -> Any:
        value = _facts(self).program.ask("op", "iter", self)
        return value if isinstance(value, Handle) else iter(value)

    def __contains__(self, item: Any) -> bool:
        facts = _facts(self)
        if facts.kind != "iterator":
            facts.refuse("whether something is in an object of the program's")
        return any(one is item or one == item for one in self)

    def __eq__(self, other: object) -> bool:
        facts = _facts(self)
        if self is other and facts.kind in _PLAIN:
            return True
        if facts.kind in _PLAIN and not isinstance(other, Handle):
            return False
        reason = "comparing an object of the program's (%s)" % facts.type_name
        facts.refuse(reason, by_test=is_handle(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __mro_entries__(self, bases: Any) -> NoReturn:
        _facts(self).refuse("a subclass of a class of the program's", by_test=True)

    def __instancecheck__(self, value: Any) -> bool:
        if type(value) not in (Handle, CallableHandle):
            if type(value) in _MIRRORED:
                _facts(self).refuse("whether it is an instance of a class of the program's")
            return False
        return bool(_facts(self).program.ask("op", "isinstance", self, value))

    def __subclasscheck__(self, value: Any) -> bool:
        if type(value) not in (Handle, CallableHandle):
            return False
        return bool(_facts(self).program.ask("op", "issubclass", self, value))


class RemoteError(Exception):
    """Base of the stand-ins for exceptions of the program's own classes."""


class CallableHandle(Handle):
    """A handle of something that can be called."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        facts = _facts(self)
        if facts.name in _TELLING and args:
            facts.refuse("%s of an object of the program's" % facts.name)
        return facts.program.ask("call", self, args, kwargs)


class Facts:
    """What the grader knows of a handle."""

    __slots__ = ("kind", "name", "number", "program", "type_name")

    def __init__(self, program: "ProgramSide", number: int, kind: str, type_name: str) -> None:
        self.program = program
        self.number = number
        self.kind = kind
        self.type_name = type_name
        #: As which attribute it was read.
        self.name = ""

    def refuse(self, reason: str, *, by_test: bool = False) -> NoReturn:
        self.program.refuse(reason, by_test=by_test)


def _facts(handle: Handle) -> Facts:
    found: Facts = object.__getattribute__(handle, "_assay")
    return found


#: Kinds of builtin objects that are equal to themselves only.
_PLAIN = frozenset({"function", "iterator"})


def _operation(name: str) -> Any:
    def ask(self: Handle, *args: Any) -> Any:
        return _facts(self).program.ask("op", name, self, *args)

    return ask


def _refusing(name: str) -> Any:
    def refuse(self: Handle, *args: Any) -> NoReturn:
        by_test = bool(args) and all(map(is_handle, args))
        _facts(self).refuse("%s of an object of the program's" % name, by_test=by_test)

    return refuse


for _name in (
    *("abs", "bytes", "complex", "delitem", "float", "format", "getitem", "index", "int"),
    *("invert", "len", "neg", "next", "pos", "repr", "reversed", "round", "setitem", "str"),
):
    setattr(Handle, "__%s__" % _name, _operation(_name))
for _name in (
    *("lt", "le", "gt", "ge", "bool", "hash", "enter", "exit", "await", "aiter", "anext"),
    *("trunc", "floor", "ceil", "reduce__", "copy", "deepcopy", "aenter", "aexit", "fspath"),
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or"),
    *("xor", "lshift", "rshift", "radd", "rsub", "rmul", "rmatmul", "rtruediv", "rfloordiv"),
    *("rmod", "rdivmod", "rpow", "rand", "ror", "rxor", "rlshift", "rrshift"),
    *("iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior"),
    *("ixor", "ilshift", "irshift"),
):
    setattr(Handle, "__%s__" % _name, _refusing("__%s__" % _name))


class _Mirror:
    """What the scalars below share: everything but the value is asked of the program."""

    _assay_handle: Handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._assay_handle, name)

    def __repr__(self) -> str:
        return repr(self._assay_handle)

    def __str__(self) -> str:
        return str(self._assay_handle)

    def __format__(self, spec: str) -> str:
        return format(self._assay_handle, spec)


class _MirrorInt(_Mirror, int):
    pass


class _MirrorStr(_Mirror, str):
    pass


class _MirrorFloat(_Mirror, float):
    pass


_MIRRORS: dict[type, type] = {int: _MirrorInt, str: _MirrorStr, float: _MirrorFloat}
_MIRRORED = frozenset(_MIRRORS.values())


def same_object(one: Any, other: Any) -> bool:
    """`one is other`, where it can be known."""
    handles = [value for value in (one, other) if is_handle(value)]
    if len(handles) == 2:
        _facts(one).refuse("identity of objects of the program's", by_test=True)
    if {type(one), type(other)} <= _MIRRORED:
        _facts(one._assay_handle).refuse("identity of objects of the program's", by_test=True)
    return one is other


def is_handle(value: Any) -> bool:
    """Whether it is a handle, without asking the program."""
    return type(value) in (Handle, CallableHandle)


def type_of(*args: Any) -> Any:
    """`type(...)`, where it can be known."""
    if len(args) == 1 and is_handle(args[0]):
        _facts(args[0]).refuse("the type of an object of the program's")
    if len(args) == 1 and (type(args[0]) in _MIRRORED or isinstance(args[0], RemoteError)):
        raise CannotGrade("the type of an object of the program's")
    return type(*args)


class ProgramSide:
    """The program's process, from here. `refusal` and `is_lost` stay: test code may catch much."""

    def __init__(self, channel_fd: int) -> None:
        self._line = wire.Line(channel_fd)
        self._handles: dict[int, Handle] = {}
        self._errors: dict[int, type[RemoteError]] = {}
        self._callbacks: list[Any] = []
        self._builtins = {
            id(value): name
            for name, value in vars(builtins).items()
            if callable(value) and not name.startswith("_") and name not in _UNSAFE_BUILTINS
        }
        self.names: frozenset[str] = frozenset()
        self.used_names: set[str] = set()
        self.refusal = ""
        self.needs_inside = False
        self.is_lost = False
        self.was_asked = False

    def begin_case(self) -> None:
        self.used_names = set()
        self.refusal = ""
        self.needs_inside = False
        self.was_asked = False

    def refuse(self, reason: str, *, by_test: bool = False) -> NoReturn:
        """Give up on the case.

        `by_test`: the test code asks for it, whatever the program does. Only then may the case be
        run in the program's process: else a program would get there by returning an odd object.
        """
        if not self.refusal:
            self.refusal, self.needs_inside = reason, by_test
        raise CannotGrade(reason)

    def await_ready(self) -> None:
        """Return once the program has loaded; raises ProgramLost if it ended before."""
        message = self._receive()[0]
        if message[0] != "ready":
            raise Malformed("not ready")
        self._take_names(message[1])

    def get(self, name: str) -> Any:
        """The value of one of the program's global names."""
        self.used_names.add(name)
        value = self.ask("global", name)
        own = type(value) is not types.ModuleType
        helpers = self.used_names & _HELPERS
        if own and helpers and len(self.used_names) > 1:
            # It may be what the test compares with: `def abs(x): return 0`.
            self.refuse("the program has %s of its own" % ", ".join(sorted(helpers)))
        if not own:
            self.used_names.discard(name)
        return value

    def ask(self, *request: Any) -> Any:
        """The program's answer to a request, see `remote`."""
        if self.is_lost:
            raise ProgramLost
        if self.refusal:
            raise CannotGrade(self.refusal)
        self.was_asked = True
        encoder = self._send(request)
        while True:
            reply, decoder = self._receive(encoder)
            if reply[0] != "callback":
                return self._read(reply, decoder)
            self._call_back(*reply[1:4])

    def _send(self, message: tuple[Any, ...]) -> Encoder:
        encoder = Encoder(self._put)
        try:
            data = encoder.dumps(message)
        except CannotEncode as error:
            self.refuse(str(error))
        try:
            self._line.send(data)
        except OSError:
            self.is_lost = True
            raise ProgramLost from None
        return encoder

    def _receive(self, encoder: Encoder | None = None) -> tuple[Any, Decoder]:
        decoder = Decoder(self._get)
        if encoder is not None:
            decoder.shared = list(encoder.shared)
        try:
            data = self._line.receive()
        except OSError:
            data = None
        if data is None:
            self.is_lost = True
            raise ProgramLost
        try:
            message = decoder.loads(data)
        except (MemoryError, CannotGrade):
            raise
        except Exception as error:
            self.refuse("a reply that cannot be read: %s" % type(error).__name__)
        if type(message) is not tuple or len(message) < 2:
            self.refuse("a reply that cannot be read")
        return message, decoder

    def _read(self, reply: tuple[Any, ...], decoder: Decoder) -> Any:
        kind, *rest, names = reply
        self._take_names(names)
        if kind == "value" and len(rest) == 2:
            value, changed = rest
            for number, contents in changed:
                wire.refill(decoder.shared[number], contents)
            return value
        if kind == "raise" and len(rest) == 4:
            raise self._error(*rest)
        if kind == "missing":
            raise KeyError
        self.refuse(str(rest[0]) if rest else "a reply that cannot be read")

    def _take_names(self, names: Any) -> None:
        if type(names) is tuple:
            self.names = frozenset(name for name in names if type(name) is str)

    def _call_back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let the program call a function of the test code."""
        try:
            value = self._callbacks[number](*args, **kwargs)
            self._send(("answer", value))
        except CannotGrade:
            self._line.send(Encoder(self._put).dumps(("refuse",)))
        except Exception as error:
            kind = type(error)
            if getattr(builtins, kind.__name__, None) is not kind:
                self.refusal = self.refusal or "the test raises an exception of its own"
                kind = RuntimeError
            self._send(("throw", kind, error.args))

    # What has no encoding of its own.

    def _put(self, encoder: Encoder, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in _MIRRORED:
            value, kind = value._assay_handle, Handle
        if kind is Handle or kind is CallableHandle:
            encoder.write(b"h")
            encoder.put(_facts(value).number, depth)
            return
        name = self._builtins.get(id(value))
        if name is not None:
            encoder.put_text(b"B", name.encode())
            return
        if kind in _CONSUMED:
            items = list(itertools.islice(value, _MAX_CONSUMED))
            encoder.put_items(b"I", items, depth)
            return
        library = self._library_name(value)
        if library is not None:
            encoder.write(b"G")
            encoder.put(library, depth)
            return
        if kind is types.FunctionType or kind is types.MethodType or kind is types.LambdaType:
            self._callbacks.append(value)
            encoder.write(b"C")
            encoder.put(len(self._callbacks) - 1, depth)
            return
        self.refuse("an argument of type %s" % kind.__name__, by_test=True)

    def _library_name(self, value: Any) -> tuple[str, str] | None:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if type(module) is str and type(name) is str and _is_pure(module):
            if getattr(sys.modules.get(module), name, None) is value:
                return module, name
        return None

    def _get(self, decoder: Decoder, tag: bytes) -> Any:
        if tag == b"B":
            name = decoder.text().decode()
            if name in _UNSAFE_BUILTINS or not hasattr(builtins, name):
                raise Malformed("not a builtin")
            return getattr(builtins, name)
        if tag == b"G":
            return self._library(*decoder.whole(0, tuple))
        if tag == b"S":
            return self._scalar(decoder.get(0), decoder.get(0))
        if tag != b"H":
            raise Malformed("an unknown value")
        return self._handle(*decoder.whole(0, tuple))

    def _library(self, module: str, name: str) -> Any:
        if not _is_pure(module) or not name.isidentifier() or name.startswith("_"):
            self.refuse("%s.%s is used from the program" % (module, name))
        __import__(module)
        return getattr(sys.modules[module], name)

    def _scalar(self, value: Any, handle: Any) -> Any:
        if type(value) not in _MIRRORS or not is_handle(handle):
            raise Malformed("not a scalar")
        made = _MIRRORS[type(value)](value)
        made._assay_handle = handle
        return made

    def _handle(self, number: int, kind: str, name: str, bases: tuple[str, ...]) -> Any:
        if kind == "module" and _is_pure(name):
            __import__(name)
            return sys.modules[name]
        if kind == "error class":
            return self._error_class(number, name, bases)
        found = self._handles.get(number)
        if found is None:
            can_call = kind in ("class", "function", "callable")
            made = CallableHandle if can_call else Handle
            found = self._handles[number] = made(Facts(self, number, kind, name))
        return found

    # Exceptions.

    def _error_class(self, number: int, name: str, bases: tuple[str, ...]) -> type[RemoteError]:
        """A class that test code can catch errors of the program's class by."""
        found = self._errors.get(number)
        if found is None:
            base = _builtin_error(bases)
            kinds = (RemoteError,) if base is Exception else (RemoteError, base)
            found = self._errors[number] = type(str(name), kinds, {"_assay_names": bases})
        return found

    def _error(self, classes: Any, args: Any, text: Any, own: Any) -> BaseException:
        known, names = classes
        base = _builtin_error(names)
        if base is MemoryError:
            return OutOfMemory()
        if known is None:
            error = base.__new__(base, *args) if base is UnicodeDecodeError else _make(base, args)
            return error
        if not (isinstance(known, type) and issubclass(known, RemoteError)):
            self.refuse("an exception that cannot be read")
        error = _make(known, args)
        error.__dict__["_assay_handle"] = own
        error.__dict__["_assay_text"] = str(text)
        for other in self._errors.values():
            if known.__name__ != other.__name__ and other.__name__ in names:
                # A base that the test may catch it by: `type` cannot tell the bases' own numbers.
                known.__bases__ = tuple(dict.fromkeys((other, *known.__bases__)))
        return error


def _error_text(self: Any) -> str:
    return str(self.__dict__.get("_assay_text", ""))


def _error_attribute(self: Any, name: str) -> Any:
    handle = self.__dict__.get("_assay_handle")
    if handle is None or name.startswith("__"):
        raise AttributeError(name)
    return getattr(handle, name)


RemoteError.__str__ = _error_text  # type: ignore[method-assign]
RemoteError.__getattr__ = _error_attribute  # type: ignore[attr-defined]


def _make(kind: type[BaseException], args: Any) -> BaseException:
    try:
        return kind(*args)
    except TypeError:
        return Exception(*args)


def _builtin_error(names: Any) -> type[BaseException]:
    """The first of these names that is a builtin exception."""
    for name in names:
        found = getattr(builtins, name, None) if type(name) is str else None
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return Exception


def _is_pure(module: str) -> bool:
    return module.partition(".")[0] in PURE_MODULES
