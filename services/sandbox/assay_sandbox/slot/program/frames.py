"""A call that sees no frame beneath it, and has the whole recursion limit: as a program's text has
where it is the first thing that an interpreter runs.

There is no API for it: it takes two writes to the thread's state, at places that are known for
CPython 3.11 and checked before they are used. Elsewhere the call is an ordinary one.
"""

import builtins
import ctypes
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

# A program may take these apart: what comes after it has its own.
globals()["__builtins__"] = vars(builtins).copy()
_get_limit, _set_limit = sys.getrecursionlimit, sys.setrecursionlimit

_POINTER = ctypes.sizeof(ctypes.c_void_p)
#: Of PyThreadState (Include/cpython/pystate.h).
_REMAINING, _LIMIT, _CFRAME = 3 * _POINTER + 8, 3 * _POINTER + 12, 3 * _POINTER + 32
#: Of _PyCFrame, and of _PyInterpreterFrame (Include/internal/pycore_frame.h).
_CURRENT, _CODE, _PREVIOUS = _POINTER, 4 * _POINTER, 6 * _POINTER
#: Levels that a call of a builtin takes by itself, beside those of its caller.
_OWN_LEVELS = 1
_LEAST_LIMIT = 1000


#: The main thread's state, where its layout is the known one.
_thread = 0


def find_thread() -> None:
    """Look once whether this interpreter's layout is the known one; forks share what is found."""
    global _thread
    if sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython":
        return
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    thread = int(get())
    limit = ctypes.c_int.from_address(thread + _LIMIT).value
    remaining = ctypes.c_int.from_address(thread + _REMAINING).value
    if limit != sys.getrecursionlimit() or not 0 < remaining < limit:
        return
    # No Python call in between: it might have an evaluation of its own.
    evaluation = ctypes.c_void_p.from_address(thread + _CFRAME).value
    frame = ctypes.c_void_p.from_address((evaluation or 0) + _CURRENT).value
    if _are_same(frame, sys._getframe()):
        _thread = thread


def _are_same(address: int | None, frame: FrameType | None) -> bool:
    """Whether a chain of frames in memory is the one that Python shows."""
    while address and frame is not None:
        if ctypes.c_void_p.from_address(address + _CODE).value != id(frame.f_code):
            return False
        address = ctypes.c_void_p.from_address(address + _PREVIOUS).value
        frame = frame.f_back
    return not address and frame is None


def alone(builtin: Callable[..., Any], *arguments: Any) -> Any:
    """Call `builtin`, which is no Python function, as if nothing ran beneath it."""
    if not _thread:
        return builtin(*arguments)
    remaining = ctypes.c_int.from_address(_thread + _REMAINING)
    extra = _get_limit() - remaining.value + _OWN_LEVELS
    # No Python call in between: it might have an evaluation of its own.
    evaluation = ctypes.c_void_p.from_address(_thread + _CFRAME).value
    current = ctypes.c_void_p.from_address((evaluation or 0) + _CURRENT)
    saved = current.value
    remaining.value += extra
    current.value = None
    try:
        return builtin(*arguments)
    finally:
        current.value = saved
        if _get_limit() < _LEAST_LIMIT:  # what comes after needs more
            _set_limit(_LEAST_LIMIT)
        remaining.value -= extra
