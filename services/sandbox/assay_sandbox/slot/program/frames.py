"""A call with no frame visible beneath it, and with the whole recursion limit.

A program's text has both when it is the first code of an interpreter. Python has no API for such a
call: it takes two writes to the thread's state, at places known for CPython 3.11 and checked before
use. Elsewhere the call is an ordinary call.
"""

import builtins
import ctypes
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

# A program may change these: the code after the program has its own copies.
globals()["__builtins__"] = vars(builtins).copy()
_get_limit, _set_limit = sys.getrecursionlimit, sys.setrecursionlimit

_POINTER = ctypes.sizeof(ctypes.c_void_p)
#: Offsets in PyThreadState (Include/cpython/pystate.h).
_REMAINING, _LIMIT, _CFRAME = 3 * _POINTER + 8, 3 * _POINTER + 12, 3 * _POINTER + 32
#: Offsets in _PyCFrame, and in _PyInterpreterFrame (Include/internal/pycore_frame.h).
_CURRENT, _CODE, _PREVIOUS = _POINTER, 4 * _POINTER, 6 * _POINTER
#: Recursion levels taken by a call of a builtin, in addition to its caller's levels.
_OWN_LEVELS = 1
_LEAST_LIMIT = 1000


#: Address of the main thread's state if its layout is known, else 0.
_thread = 0


def find_thread() -> None:
    """Check once for the known layout of the interpreter's memory; forks share the result."""
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
    # No Python call in between: it might have its own evaluation.
    evaluation = ctypes.c_void_p.from_address(thread + _CFRAME).value
    frame = ctypes.c_void_p.from_address((evaluation or 0) + _CURRENT).value
    if _are_same(frame, sys._getframe()):
        _thread = thread


def _are_same(address: int | None, frame: FrameType | None) -> bool:
    """Return True if a chain of frames in memory equals the chain shown by Python."""
    while address and frame is not None:
        if ctypes.c_void_p.from_address(address + _CODE).value != id(frame.f_code):
            return False
        address = ctypes.c_void_p.from_address(address + _PREVIOUS).value
        frame = frame.f_back
    return not address and frame is None


def alone(builtin: Callable[..., Any], *arguments: Any) -> Any:
    """Call `builtin`, not a Python function, as if nothing ran beneath it; return its result."""
    if not _thread:
        return builtin(*arguments)
    remaining = ctypes.c_int.from_address(_thread + _REMAINING)
    extra = _get_limit() - remaining.value + _OWN_LEVELS
    # No Python call in between: it might have its own evaluation.
    evaluation = ctypes.c_void_p.from_address(_thread + _CFRAME).value
    current = ctypes.c_void_p.from_address((evaluation or 0) + _CURRENT)
    saved = current.value
    remaining.value += extra
    current.value = None
    try:
        return builtin(*arguments)
    finally:
        current.value = saved
        if _get_limit() < _LEAST_LIMIT:  # the code after the call needs more
            _set_limit(_LEAST_LIMIT)
        remaining.value -= extra
