"""The program's process, as its grader sees it. Values come as they are, the rest as handles."""

import builtins
import itertools
import sys
import types
from typing import Any, NoReturn

from assay_sandbox.slot.decoder import Decoder
from assay_sandbox.slot.encoder import Encoder
from assay_sandbox.slot.exchange import Exchange
from assay_sandbox.slot.handles import (
    MIRRORED,
    MIRRORS,
    CallableHandle,
    Facts,
    Handle,
    RemoteError,
    is_handle,
)
from assay_sandbox.slot.wire import CannotEncode, CannotGrade, Malformed, need_frames

#: Modules that test code may use here: what they do touches nothing but their arguments.
PURE_MODULES = frozenset(
    [
        "abc",
        "bisect",
        "cmath",
        "collections",
        "copy",
        "datetime",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
        "numbers",
        "numpy",
        "operator",
        "re",
        "statistics",
        "string",
        "textwrap",
        "typing",
        "types",
        "__future__",
        "scipy",
        "sympy",
        "pandas",
        "networkx",
        "sklearn",
        "hashlib",
        "base64",
        "pprint",
        "calendar",
        "random",
        "time",
        "secrets",
        "uuid",
        "typing_extensions",
        "mpmath",
        "difflib",
        "zlib",
        "binascii",
        "struct",
        "array",
        "unicodedata",
    ]
)
#: Names with which a program could pass for what test code compares by.
_COMPARERS = frozenset(
    {"isclose", "fabs", "allclose", "array_equal", "approx", "numpy", "np", "pd", "pandas", "sp"}
)
_HELPERS = frozenset(dir(builtins)) | sys.stdlib_module_names | _COMPARERS
_UNSAFE_BUILTINS = frozenset(
    [
        *("exec", "eval", "compile", "open", "input", "breakpoint", "exit", "quit", "globals"),
        *("locals", "vars", "setattr", "delattr", "__import__", "help", "memoryview"),
    ]
)
_MAX_CONSUMED = 10**6
_EMPTY: list[Any] = [[], (), {}, set(), "", range(0)]
_CONSUMED = (
    types.GeneratorType,
    map,
    filter,
    zip,
    enumerate,
    *(type(iter(one)) for one in _EMPTY),
)


class ProgramLost(BaseException):
    """The program's process is gone."""


class OutOfMemory(MemoryError):
    """The program has run out of its memory."""


class ProgramSide:
    """The program's process, from here. `refusal` and `is_lost` stay: test code may catch much."""

    def __init__(self, channel_fd: int) -> None:
        self._exchange = Exchange(channel_fd, self._put, self._get)
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
        #: What the program returned last.
        self.last_value: Any = None

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
        message = self._receive()
        if len(message) != 2 or message[0] != "ready":
            self.refuse("a reply that cannot be read")
        self._take_names(message[1])

    def get(self, name: str) -> Any:
        """The value of one of the program's global names."""
        self.used_names.add(name)
        value = self.ask("global", name)
        own = type(value) is not types.ModuleType
        if is_handle(value):
            facts = object.__getattribute__(value, "_assay")
            if facts.kind == "module" and facts.type_name == name:
                self.refuse(f"the test uses {name} of the program's process", by_test=True)
        helpers = self.used_names & _HELPERS
        if own and helpers and len(self.used_names) > 1:
            # It may be what the test compares with: `def abs(x): return 0`.
            self.refuse("the program has {} of its own".format(", ".join(sorted(helpers))))
        if not own:
            self.used_names.discard(name)
        return value

    def has(self, name: str) -> bool:
        """Whether the program has a global of that name that test code may see."""
        return name in self.names and not name.startswith("__")

    def set(self, name: str, value: Any) -> None:
        """Give one of the program's global names another value: test code shares them."""
        was_asked = self.was_asked
        if isinstance(value, types.ModuleType):
            self.ask("import", name, value.__name__)
        else:
            self.ask("set", name, value)
        self.was_asked = was_asked

    def delete(self, name: str) -> None:
        """Delete one of the program's global names."""
        self.ask("delete", name)

    def ask(self, *request: Any) -> Any:
        """The program's answer to a request, see `remote`."""
        if self.is_lost:
            raise ProgramLost
        if self.refusal:
            raise CannotGrade(self.refusal)
        need_frames()
        self.was_asked = True
        self._send(list(request))
        while True:
            reply = self._receive()
            if reply[0] != "callback" or len(reply) != 4:
                return self._read(*reply)
            self._call_back(*reply[1:])

    def _send(self, message: list[Any]) -> None:
        try:
            self._exchange.send(message)
        except CannotEncode as error:
            self.refuse(str(error))
        except OSError:
            self.is_lost = True
            raise ProgramLost from None

    def _receive(self) -> list[Any]:
        """The next message. What the program sends can do no more here than to be refused."""
        try:
            message = self._exchange.receive()
        except OSError:
            message = None
        except (MemoryError, CannotGrade) as error:
            self.refuse(str(error) or "the value is too large")
        except Exception as error:
            self.refuse(f"a reply that cannot be read: {type(error).__name__}")
        if message is None:
            self.is_lost = True
            raise ProgramLost
        return message

    def _read(self, kind: Any, *rest: Any) -> Any:
        self._take_names(rest[-1] if rest else None)
        if kind == "value" and len(rest) == 2:
            self.last_value = rest[0]
            return rest[0]
        if kind == "raise" and len(rest) == 7:
            raise self._error(*rest[:6])
        if kind == "missing":
            raise KeyError
        if kind == "cannot" and type(rest[0]) is str:
            self.refuse(rest[0])
        self.refuse("a reply that cannot be read")

    def _take_names(self, names: Any) -> None:
        if type(names) is tuple:
            self.names = frozenset(name for name in names if type(name) is str)

    def _call_back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let the program call a function of the test code."""
        try:
            value = self._callbacks[number](*args, **kwargs)
            self._send(["answer", value])
        except CannotGrade:
            self._send(["refuse"])
        except Exception as error:
            kind = type(error)
            if getattr(builtins, kind.__name__, None) is not kind:
                self.refusal = self.refusal or "the test raises an exception of its own"
                kind = RuntimeError
            self._send(["throw", kind, error.args])

    # What has no encoding of its own.

    def _put(self, encoder: Encoder, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in MIRRORED:
            value, kind = value._assay_handle, Handle
        if kind is Handle or kind is CallableHandle:
            encoder.write(b"h")
            encoder.put(object.__getattribute__(value, "_assay").number, depth)
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
        self.refuse(f"an argument of type {kind.__name__}", by_test=True)

    def is_library(self, value: Any) -> bool:
        """Whether test code's own is used here: a module, or what one has brought."""
        is_builtin = id(value) in self._builtins
        return isinstance(value, types.ModuleType) or is_builtin or bool(self._library_name(value))

    def _library_name(self, value: Any) -> tuple[str, str] | None:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if not (type(module) is str and type(name) is str and _is_pure(module)):
            return None
        return (module, name) if getattr(sys.modules.get(module), name, None) is value else None

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
            self.refuse(f"{module}.{name} is used from the program")
        __import__(module)
        return getattr(sys.modules[module], name)

    def _scalar(self, value: Any, handle: Any) -> Any:
        if type(value) not in MIRRORS or not is_handle(handle):
            raise Malformed("not a scalar")
        made = MIRRORS[type(value)](value)
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

    def _error(
        self, classes: Any, args: Any, text: Any, own: Any, state: Any, cause: Any
    ) -> BaseException:
        known, names = classes
        base = _builtin_error(names)
        if base is MemoryError:
            return OutOfMemory()
        kind = base if known is None else known
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            self.refuse("an exception that cannot be read")
        error = self._rebuilt(kind, args, state)
        if isinstance(error, RemoteError):
            error.__dict__.update(_assay_handle=own, _assay_text=str(text))
            self._find_bases(kind, names)
        if type(cause) is list and len(cause) == 6:
            error.__cause__ = self._error(*cause)
        return error

    def _rebuilt(self, kind: type[BaseException], args: Any, state: Any) -> BaseException:
        try:
            error = kind(*args)
            if type(state) is dict:
                error.__dict__.update(state)
        except (TypeError, ValueError):
            self.refuse(f"an exception that cannot be built again: {kind.__name__}")
        return error

    def _find_bases(self, kind: type[BaseException], names: Any) -> None:
        """Add the bases that the test may catch it by: a base is known by its name alone."""
        for other in self._errors.values():
            if kind.__name__ != other.__name__ and other.__name__ in names:
                kind.__bases__ = tuple(dict.fromkeys((other, *kind.__bases__)))


def _builtin_error(names: Any) -> type[BaseException]:
    """The first of these names that is a builtin exception."""
    for name in names:
        found = getattr(builtins, name, None) if type(name) is str else None
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return Exception


def _is_pure(module: str) -> bool:
    return module.partition(".")[0] in PURE_MODULES
