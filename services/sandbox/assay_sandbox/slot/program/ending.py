"""The end of a program: the steps of `Py_FinalizeEx` visible to the program, and nothing else.

The interpreter's own end would write to every page of a fork, and so copy it. This module takes
apart only the program's own objects, in the interpreter's order. Modules already warm before the
program began stay as they are.
"""

import _thread
import atexit
import builtins
import gc
import os
import signal
import sys
import traceback
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any

from assay_sandbox.slot.confinement import kernel
from assay_sandbox.slot.program import frames

# A program may change these: the code to end the program has its own copies.
globals()["__builtins__"] = vars(builtins).copy()
_collect, _is_collecting = gc.collect, gc.isenabled
_count, _stats, _new_objects = gc.get_count, gc.get_stats, gc.get_objects
_num_handlers, _run_handlers = atexit._ncallbacks, atexit._run_exitfuncs
_num_threads, _write, _folder_of = _thread._count, os.write, os.path.dirname

#: Exit status of a program if its output could not be written to the end.
_FLUSH_FAILED = 120
_LONG = 2**63
_SWITCH_S = 1e-4
#: Objects of only these types end unseen, as do objects unknown to the collector, such as numbers
#: and text.
_SILENT = {
    *(dict, list, tuple, set, frozenset, deque, defaultdict),
    *(FunctionType, BuiltinFunctionType, MethodType, CellType, ModuleType),
}
#: More new objects than this are not checked one by one.
_MAX_LOOKED_AT = 1000
#: `sys.modules` may be replaced by a program; the interpreter keeps this one.
_MODULES = sys.modules
_STANDARD = ("stdin", "stdout", "stderr")
#: Names of `sys` set to None first by the interpreter: otherwise they would keep objects alive.
_DROPPED = [
    *("path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback"),
    *("path_hooks", "path_importer_cache", "meta_path", "__interactivehook__"),
]
#: Modules, and names of `sys` and `builtins`, from before the program.
_warm_modules: dict[str, ModuleType] = {}
_warm_names: dict[ModuleType, dict[str, Any]] = {}
#: The function of `threading` at the end, unless a program changes it.
_warm_shutdown: list[Callable[[], None]] = []
#: Counts of collections of the older generations when the program began.
_num_collections: list[int] = []
#: Objects kept alive: otherwise they would be destroyed at the end, with no visible effect.
_kept: list[object] = []


def remember_warm(silent: list[type]) -> None:
    """Note everything not made by a program. The last step of warming up an interpreter.

    `silent` are types of objects made by the harness for a program.
    """
    _SILENT.update(silent)
    _warm_shutdown[:] = [sys.modules["threading"]._shutdown]
    _warm_modules.update(sys.modules)
    for module in (sys, builtins):
        _warm_names[module] = dict(vars(module))
    _kept.extend(getattr(sys, name, None) for name in _DROPPED)


def report(error: BaseException) -> int:
    """Show an uncaught exception as the interpreter does; return the exit status."""
    if isinstance(error, SystemExit):
        return exit_status(error)
    frames = own_frames(error)
    error.__traceback__ = frames
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
    try:
        hook = sys.excepthook
    except AttributeError:
        _write_error("sys.excepthook is missing\n")
        sys.__excepthook__(type(error), error, frames)
        return 1
    try:
        hook(type(error), error, frames)
    except SystemExit as end:
        return exit_status(end)
    except BaseException as second:
        _write_error("Error in sys.excepthook:\n")
        second.__context__ = None if second.__context__ is error else second.__context__
        second.__traceback__ = own_frames(second)
        sys.__excepthook__(type(second), second, second.__traceback__)
        _write_error("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, frames)
    return 1


def own_frames(error: BaseException) -> TracebackType | None:
    """Return the program's part of a traceback."""
    frames = error.__traceback__
    slot = _folder_of(_folder_of(__file__)) + "/"
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(slot):
        frames = frames.tb_next
    return frames


def exit_status(error: SystemExit) -> int:
    """Return the exit status of sys.exit(code): 0 for None, and a number for itself.

    Any other code is shown, and its status is 1.
    """
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return (int(code) if -_LONG <= code < _LONG else -1) & 0xFF
    quietly(lambda: _write_error(str(code)))
    _write_error("\n")
    return 1


def _write_error(text: str) -> None:
    stream = getattr(sys, "stderr", None)
    if stream is None:
        _write(2, text.encode(errors="backslashreplace"))
        return
    try:
        stream.write(text)
    except Exception:
        return


def end(status: int) -> int:
    """End the program: threads, exit handlers, streams, modules. Return the exit status."""
    is_written = flush() if _ends_unseen() else _end_seen()
    return status if is_written else _FLUSH_FAILED


def _end_seen() -> bool:
    """Take apart a program able to notice it; return True if its output was written."""
    _await_threads()
    frames.alone(_run_handlers)  # prints what a handler raises
    if _has_threads():
        # Each write lets daemon threads run: they must give way again at once.
        sys.setswitchinterval(_SWITCH_S)
    is_written = flush()
    if _is_collecting():
        frames.alone(_collect)
    _drop_modules()
    kernel.flush_streams()  # only what a program has loaded prints in C
    return is_written


def die_of_interrupt() -> None:
    """End by SIGINT, as the interpreter does after an uncaught KeyboardInterrupt."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def prepare_begin() -> None:
    """Freeze all current objects: the collector skips them in the next fork. Note its counts."""
    gc.freeze()
    _num_collections[:] = _count_collections()


def rehearse() -> None:
    """Run the steps at the end of most programs; they change nothing."""
    _ends_unseen()
    flush()


def _ends_unseen() -> bool:
    """Return True if no remaining object can notice being dropped, as in most programs.

    Checks the objects known to the collector since `prepare_begin`. Returns False if the program
    has hidden them from the collector, or has run a collection.
    """
    if _num_handlers() or _num_threads() or not _is_shutdown_idle():
        return False
    names = vars(sys)
    if names.get("stdout") is not _warm_names[sys]["stdout"]:
        return False
    if names.get("modules") is not _MODULES or len(_MODULES) != len(_warm_modules):
        return False
    if _count()[0] > _MAX_LOOKED_AT or _count_collections() != _num_collections:
        return False
    found = _new_objects()
    return _SILENT.issuperset(map(type, found)) and _MODULES.get("__main__") in found


def _count_collections() -> list[int]:
    return [one["collections"] for one in _stats()[1:]]


def _await_threads() -> None:
    if not _has_threads() and _is_shutdown_idle():
        return
    threading = _MODULES["threading"]
    try:
        threading._shutdown()
    except BaseException as error:
        _show_ignored(error, threading)


def _is_shutdown_idle() -> bool:
    """Return True if `threading` would do nothing at the end without threads."""
    threading = _MODULES.get("threading")
    if threading is None:
        return True
    return threading._shutdown is _warm_shutdown[0] and not threading._threading_atexits


def _has_threads() -> bool:
    return _num_threads() > 0


class _Ignored:
    """An argument for `sys.unraisablehook`; Python has no public class for it."""

    err_msg = None

    def __init__(self, error: BaseException, where: object) -> None:
        self.exc_type = type(error)
        self.exc_value = error
        self.exc_traceback = own_frames(error)
        self.object = where


def _show_ignored(error: BaseException, where: object) -> None:
    ignored = _Ignored(error, where)
    if sys.unraisablehook is not sys.__unraisablehook__:
        quietly(lambda: sys.unraisablehook(ignored))  # type: ignore[arg-type]  # enough for hooks
        return
    shown = traceback.format_exception(error.with_traceback(ignored.exc_traceback))
    _write_error(f"Exception ignored in: {where!r}\n{''.join(shown)}")


def flush() -> bool:
    """Flush the standard streams in `sys`; return False if a stream fails."""
    is_flushed = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is None or _is_closed(stream):
            continue
        try:
            stream.flush()
        except BaseException as error:
            is_flushed = False
            if name == "stdout":
                _show_ignored(error, stream)
    return is_flushed


def flush_all() -> None:
    """Flush the interpreter's own streams too, and ignore their errors."""
    for name in ("stdout", "__stdout__", "stderr", "__stderr__"):
        quietly(partial(_flush, name))
    for name in ("stdout", "stderr"):  # if the program dropped them, they may still hold output
        quietly(_warm_names[sys][name].flush)


def quietly(call: Callable[[], object]) -> None:
    """Call, and ignore any exception. A program could change `contextlib.suppress`."""
    try:
        call()
    except BaseException:
        return


def _flush(name: str) -> None:
    getattr(sys, name).flush()


def _is_closed(stream: object) -> bool:
    try:
        return bool(stream.closed)  # type: ignore[attr-defined]
    except BaseException:
        return False


def _drop_modules() -> None:
    """Drop the program's modules as the interpreter does: first whole, then name by name."""
    builtins.__dict__.pop("_", None)
    for name in _DROPPED:
        if name in sys.__dict__:
            sys.__dict__[name] = None
    for name in _STANDARD:
        sys.__dict__[name] = getattr(sys, f"__{name}__", None)
    left = []
    for name in _own_modules():
        if isinstance(_MODULES.get(name), ModuleType):
            left.append(weakref.ref(_MODULES[name]))
        frames.alone(_MODULES.__setitem__, name, None)
    _restore(builtins)
    builtins.__dict__.update(_warm_names[builtins])  # the interpreter's own names are back
    frames.alone(_collect)
    for reference in reversed(left):
        module = reference()
        if module is not None:
            _clear(module.__dict__)
    flush_all()
    sys.stdout = sys.stderr = None  # as the interpreter does
    _restore(sys)


def _own_modules() -> list[str]:
    """Return the names of the program's own modules: `__main__`, then its imports in order."""
    names = []
    for name in reversed(_MODULES):  # stops at the last warm module, without a check of the rest
        if _warm_modules.get(name) is _MODULES[name]:
            break
        names.append(name)
    return ["__main__", *reversed(names)]


def _clear(names: dict[str, Any]) -> None:
    """Set all names but `__builtins__` to None, names with a single underscore first."""
    for name in list(names):
        if isinstance(name, str) and name[:1] == "_" and name[:2] != "__":
            frames.alone(names.__setitem__, name, None)
    for name in list(names):
        if name != "__builtins__":
            frames.alone(names.__setitem__, name, None)


def _restore(module: ModuleType) -> None:
    """Drop the names a program has added to a module of the interpreter."""
    warm = _warm_names[module]
    names = vars(module)
    if len(names) != len(warm):
        for name in [name for name in names if name not in warm]:
            frames.alone(names.__delitem__, name)
