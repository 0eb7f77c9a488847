"""The program's process, as seen by its grader. Values come as they are, the rest as handles."""

import builtins
import itertools
import sys
import types
from collections import deque
from typing import Any, NoReturn

from assay_sandbox.slot.grading import callback
from assay_sandbox.slot.grading.handles import (
    MIRRORED,
    MIRRORS,
    CallableHandle,
    Facts,
    Handle,
    RemoteError,
    is_handle,
)
from assay_sandbox.slot.grading.library import HELPERS, UNSAFE_BUILTINS, is_pure
from assay_sandbox.slot.grading.remote import ITERATORS
from assay_sandbox.slot.messages.decoder import ValueDecoder
from assay_sandbox.slot.messages.encoder import Encoder
from assay_sandbox.slot.messages.exchange import Exchange
from assay_sandbox.slot.messages.wire import (
    CannotEncode,
    CannotGrade,
    MalformedMessage,
    need_frames,
)

_MAX_CONSUMED = 10**6
_MAX_FRESH = 64
#: Bases of every stand-in for a class of errors anyway.
_ROOTS = (object, Exception)


class ProgramLost(BaseException):
    """The program's process is gone."""


class OutOfMemory(MemoryError):
    """The program has run out of its memory."""


class ProgramSide:
    """The program's process, from here.

    `refusal` and `is_lost` stay set, because test code may catch the exceptions raised with them.
    """

    def __init__(self, channel_fd: int) -> None:
        self._exchange = Exchange(channel_fd, self._put, self._get)
        self._handles: dict[int, Handle] = {}
        self._errors: dict[int, type[RemoteError]] = {}
        self._callbacks: list[Any] = []
        #: Iterators held by nothing but a call: nobody sees how much is taken from them.
        self._fresh: deque[Any] = deque(maxlen=_MAX_FRESH)
        self._builtins = {
            id(value): name
            for name, value in vars(builtins).items()
            if callable(value) and not name.startswith("_") and name not in UNSAFE_BUILTINS
        }
        self.names: frozenset[str] = frozenset()
        self.used_names: set[str] = set()
        self.refusal = ""
        self.needs_inside = False
        self.is_lost = False
        self.was_asked = False
        #: The program's latest return value.
        self.last_value: Any = None

    def begin_case(self) -> None:
        self.used_names = set()
        self.refusal = ""
        self.needs_inside = False
        self.was_asked = False

    def note_fresh(self, iterator: Any) -> Any:
        """Note an iterator made by the test code for a call, and not kept; return it."""
        self._fresh.append(iterator)
        return iterator

    def refuse(self, reason: str, *, by_test: bool = False) -> NoReturn:
        """Give up on the case.

        With `by_test`, the test code is the reason, whatever the program does. Only then may the
        case run in the program's process: otherwise a program could get there by an odd object.
        """
        if not self.refusal:
            self.refusal, self.needs_inside = reason, by_test
        raise CannotGrade(reason)

    def await_ready(self) -> None:
        """Wait until the program has loaded; raise ProgramLost if it ended before."""
        message = self._receive()
        if len(message) != 2 or message[0] != "ready":
            self.refuse("a reply that cannot be read")
        self._take_names(message[1])

    def get(self, name: str) -> Any:
        """Return the value of a global name of the program."""
        self.used_names.add(name)
        value = self.ask("global", name)
        own = type(value) is not types.ModuleType
        if is_handle(value):
            facts = object.__getattribute__(value, "_assay")
            if facts.kind == "module" and facts.type_name == name:
                self.refuse(f"the test uses {name} of the program's process", by_test=True)
        helpers = self.used_names & HELPERS
        if own and helpers and len(self.used_names) > 1:
            # The test may compare with it: a program could say `def abs(x): return 0`.
            self.refuse("the program defines its own {}".format(", ".join(sorted(helpers))))
        if not own:
            self.used_names.discard(name)
        return value

    def has(self, name: str) -> bool:
        """Return True if the program has a global of this name, visible to test code."""
        return name in self.names and not name.startswith("__")

    def set(self, name: str, value: Any) -> None:
        """Give a global name of the program another value: test code shares these names."""
        was_asked = self.was_asked
        if isinstance(value, types.ModuleType):
            self.ask("import", name, value.__name__)
        else:
            self.ask("set", name, value)
        self.was_asked = was_asked

    def delete(self, name: str) -> None:
        """Delete a global name of the program."""
        self.ask("delete", name)

    def ask(self, *request: Any) -> Any:
        """Return the program's answer to a request, see `remote`."""
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
        """Return the program's next message. At worst, a message is refused here."""
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
        if kind == "raise" and len(rest) == 8:
            self._raise(self._error(*rest[:7]))
        if kind == "missing":
            raise KeyError
        if kind == "cannot" and type(rest[0]) is str:
            self.refuse(rest[0])
        self.refuse("a reply that cannot be read")

    def _raise(self, error: BaseException) -> NoReturn:
        context, is_suppressed = error.__context__, error.__suppress_context__
        try:
            raise error
        finally:
            if context is not None:  # else the test code's context stays, as in a single process
                error.__context__ = context
            error.__suppress_context__ = is_suppressed

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
                self.refusal = self.refusal or "the test raises its own kind of exception"
                kind = RuntimeError
            self._send(["throw", kind, error.args])

    # Values without an encoding.

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
        if kind in ITERATORS:
            if not any(value is one for one in self._fresh):
                self.refuse("the program takes from an iterator of the test's", by_test=True)
            encoder.put_items(b"I", list(itertools.islice(value, _MAX_CONSUMED)), depth)
            return
        library = self._library_name(value)
        if library is not None:
            encoder.write(b"G")
            encoder.put(library, depth)
            return
        if kind is types.FunctionType or kind is types.MethodType or kind is types.LambdaType:
            encoder.write(b"C")
            encoder.put((self._callback_number(value), self._look(value)), depth)
            return
        self.refuse(f"an argument of type {kind.__name__}", by_test=True)

    def _callback_number(self, function: Any) -> int:
        for number, one in enumerate(self._callbacks):
            if one is function:
                return number
        self._callbacks.append(function)
        return len(self._callbacks) - 1

    def _look(self, function: Any) -> tuple[Any, ...] | None:
        """Return a function's look for the program, see `callback`; None for other callables."""
        if type(function) is not types.FunctionType:
            return None
        if function.__dict__:
            self.refuse("a function of the test code with its own attributes", by_test=True)
        return callback.look(function)

    def is_library(self, value: Any) -> bool:
        """Return True for modules, builtins and library objects: test code uses its own here."""
        is_builtin = id(value) in self._builtins
        return isinstance(value, types.ModuleType) or is_builtin or bool(self._library_name(value))

    def _library_name(self, value: Any) -> tuple[str, str] | None:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if not (type(module) is str and type(name) is str and is_pure(module)):
            return None
        return (module, name) if getattr(sys.modules.get(module), name, None) is value else None

    def _get(self, decoder: ValueDecoder, tag: bytes) -> Any:
        if tag == b"B":
            name = decoder.text().decode()
            if name in UNSAFE_BUILTINS or not hasattr(builtins, name):
                raise MalformedMessage("not a builtin")
            return getattr(builtins, name)
        if tag == b"G":
            return self._library(*decoder.whole(0, tuple))
        if tag == b"S":
            return self._scalar(decoder.get(0), decoder.get(0))
        if tag == b"y":
            number = decoder.whole(0, int)
            if not 0 <= number < len(self._callbacks):
                raise MalformedMessage("not a function of the test code")
            return self._callbacks[number]
        if tag != b"H":
            raise MalformedMessage("an unknown value")
        return self._handle(*decoder.whole(0, tuple))

    def _library(self, module: str, name: str) -> Any:
        if not is_pure(module) or not name.isidentifier() or name.startswith("_"):
            self.refuse(f"{module}.{name} is used from the program")
        __import__(module)
        return getattr(sys.modules[module], name)

    def _scalar(self, value: Any, handle: Any) -> Any:
        if type(value) not in MIRRORS or not is_handle(handle):
            raise MalformedMessage("not a scalar")
        made = MIRRORS[type(value)](value)
        made._assay_handle = handle
        return made

    def _handle(self, number: int, kind: str, name: str, bases: tuple[str, ...]) -> Any:
        if kind == "module" and is_pure(name):
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

    def _error_class(self, number: int, name: str, bases: tuple[Any, ...]) -> type[RemoteError]:
        """Return a class for test code to catch errors of the program's class.

        `bases` are the program's own classes of errors, and Python's; others are left out.
        """
        found = self._errors.get(number)
        if found is None:
            kinds = [one for one in bases if isinstance(one, type) and one not in _ROOTS]
            if not any(issubclass(one, RemoteError) for one in kinds):
                kinds.insert(0, RemoteError)
            try:
                found = self._errors[number] = type(str(name), tuple(kinds), {})
            except TypeError:
                self.refuse("a class of errors that cannot be built here")
        return found

    def _error(
        self, classes: Any, args: Any, text: Any, own: Any, state: Any, cause: Any, context: Any
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
        if type(cause) is list and len(cause) == 7:
            error.__cause__ = self._error(*cause)
        if type(context) is not tuple or len(context) != 2:
            return error
        described, is_suppressed = context
        if type(described) is list and len(described) == 7:
            error.__context__ = self._error(*described)
        elif described is True:
            error.__context__ = error.__cause__
        error.__suppress_context__ = is_suppressed is True
        return error

    def _rebuilt(self, kind: type[BaseException], args: Any, state: Any) -> BaseException:
        try:
            error = kind(*args)
            if type(state) is dict:
                error.__dict__.update(state)
        except (TypeError, ValueError):
            self.refuse(f"an exception that cannot be built again: {kind.__name__}")
        return error


def _builtin_error(names: Any) -> type[BaseException]:
    """Return the first builtin exception among these names, else Exception."""
    for name in names:
        found = getattr(builtins, name, None) if type(name) is str else None
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return Exception
