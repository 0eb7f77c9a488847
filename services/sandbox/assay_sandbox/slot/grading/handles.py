"""Stand-ins for objects kept in the program's process.

A stand-in passes calls, attributes, items and iteration on to the program's process. It refuses
comparing, truth, hashing and arithmetic: otherwise the program could decide a verdict.
"""

from typing import Any, NoReturn, Protocol

from assay_sandbox.slot.messages.decoder import MADE
from assay_sandbox.slot.messages.wire import CannotGrade


class Asked(Protocol):
    """The program's process, as seen by stand-ins."""

    def ask(self, *request: Any) -> Any: ...
    def refuse(self, reason: str, *, by_test: bool = False) -> NoReturn: ...


#: Methods with the expected value among their arguments.
_TELLING = frozenset(
    [
        "startswith",
        "endswith",
        "count",
        "issubset",
        "issuperset",
        "isdisjoint",
        "difference",
        "symmetric_difference",
        "equals",
        "match",
        "fullmatch",
        "almost_equals",
    ]
)
_DECIDING = frozenset(
    [
        "__class__",
        "__eq__",
        "__ne__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__bool__",
        "__hash__",
        "__contains__",
        "__reduce__",
        "__reduce_ex__",
        "__add__",
        "__radd__",
        "__sub__",
        "__rsub__",
        "__mul__",
        "__rmul__",
        "__truediv__",
        "__mod__",
        "__and__",
        "__or__",
        "__xor__",
    ]
)


class Handle:
    """Stand-in for an object kept in the program's process."""

    __slots__ = ("__weakref__", "_assay")

    def __init__(self, *facts: Any) -> None:
        if len(facts) != 1 or not isinstance(facts[0], Facts):
            raise CannotGrade("a class of the program has a subclass")
        object.__setattr__(self, "_assay", facts[0])

    def __getattribute__(self, name: str) -> Any:
        facts = _facts(self)
        if name == "__mro_entries__":
            facts.refuse("a subclass of a class of the program's", by_test=True)
        if name in _DECIDING:
            facts.refuse(f"{name} of an object of the program's")
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
        reason = f"comparing an object of the program's ({facts.type_name})"
        facts.refuse(reason, by_test=is_handle(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        facts = _facts(self)
        if facts.kind != "match":
            facts.refuse("__bool__ of an object of the program's")
        return True  # a match of `re` is always true: the program could as well have said so

    def __instancecheck__(self, value: Any) -> bool:
        if type(value) not in (Handle, CallableHandle):
            # A named tuple comes as an instance of a class made here.
            if type(value) in MIRRORED or (isinstance(value, tuple) and type(value) is not tuple):
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
    """A handle of a callable object."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        facts = _facts(self)
        if facts.name in _TELLING and args:
            facts.refuse(f"{facts.name} of an object of the program's")
        try:
            return facts.program.ask("call", self, args, kwargs)
        except StopIteration:
            # It would end a loop of the test code early: `all(map(check, cases))` would hold.
            facts.refuse("a function of the program raised StopIteration")


class Facts:
    """The grader's knowledge of a handle."""

    __slots__ = ("kind", "name", "number", "program", "type_name")

    def __init__(self, program: Asked, number: int, kind: str, type_name: str) -> None:
        self.program = program
        self.number = number
        self.kind = kind
        self.type_name = type_name
        #: Name of the attribute it was read as.
        self.name = ""

    def refuse(self, reason: str, *, by_test: bool = False) -> NoReturn:
        self.program.refuse(reason, by_test=by_test)


def _facts(handle: Handle) -> Facts:
    found: Facts = object.__getattribute__(handle, "_assay")
    return found


#: Kinds of builtin objects equal only to themselves.
_PLAIN = frozenset({"function", "iterator"})


def _operation(name: str) -> Any:
    def ask(self: Handle, *args: Any) -> Any:
        return _facts(self).program.ask("op", name, self, *args)

    return ask


def _refusing(name: str) -> Any:
    def refuse(self: Handle, *args: Any) -> NoReturn:
        by_test = bool(args) and all(map(is_handle, args))
        _facts(self).refuse(f"{name} of an object of the program's", by_test=by_test)

    return refuse


for _name in (
    *("abs", "bytes", "complex", "delitem", "float", "format", "getitem", "index", "int"),
    *("invert", "len", "neg", "next", "pos", "repr", "reversed", "round", "setitem", "str"),
):
    setattr(Handle, f"__{_name}__", _operation(_name))
for _name in (
    *("lt", "le", "gt", "ge", "hash", "enter", "exit", "await", "aiter", "anext"),
    *("trunc", "floor", "ceil", "reduce__", "copy", "deepcopy", "aenter", "aexit", "fspath"),
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or"),
    *("xor", "lshift", "rshift", "radd", "rsub", "rmul", "rmatmul", "rtruediv", "rfloordiv"),
    *("rmod", "rdivmod", "rpow", "rand", "ror", "rxor", "rlshift", "rrshift"),
    *("iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior"),
    *("ixor", "ilshift", "irshift"),
):
    setattr(Handle, f"__{_name}__", _refusing(f"__{_name}__"))


class _Mirror:
    """Base of the scalars below: for everything but the value, it asks the program."""

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


MIRRORS: dict[type, type] = {int: _MirrorInt, str: _MirrorStr, float: _MirrorFloat}
MIRRORED = frozenset(MIRRORS.values())


def same_object(one: Any, other: Any) -> bool:
    """Return `one is other`; refuse if both are objects of the program's."""
    handles = [value for value in (one, other) if is_handle(value)]
    if len(handles) == 2:
        _facts(one).refuse("identity of objects of the program's", by_test=True)
    if {type(one), type(other)} <= MIRRORED:
        _facts(one._assay_handle).refuse("identity of objects of the program's", by_test=True)
    return one is other


def is_handle(value: Any) -> bool:
    """Return True for a handle, without asking the program."""
    return type(value) in (Handle, CallableHandle)


def type_of(*args: Any) -> Any:
    """Return `type(...)`; refuse for an object of the program's."""
    if len(args) == 1 and is_handle(args[0]):
        _facts(args[0]).refuse("the type of an object of the program's")
    kind = type(args[0]) if args else None
    if len(args) == 1 and (kind in MIRRORED or kind in MADE or isinstance(args[0], RemoteError)):
        raise CannotGrade("the type of an object of the program's")
    return type(*args)


def _error_text(self: Any) -> str:
    return str(self.__dict__.get("_assay_text", ""))


def _error_attribute(self: Any, name: str) -> Any:
    handle = self.__dict__.get("_assay_handle")
    if handle is None or name.startswith("__"):
        raise AttributeError(name)
    return getattr(handle, name)


RemoteError.__str__ = _error_text  # type: ignore[method-assign]
RemoteError.__getattr__ = _error_attribute  # type: ignore[attr-defined]
