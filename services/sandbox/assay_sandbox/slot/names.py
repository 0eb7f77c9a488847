"""Hides the location of the slots' own modules on the host from programs.

Frames, tracebacks and modules name their file. A program shares its process with the slot's
modules and can print these names, so they say `/assay/...` instead.
"""

import _imp
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType

_PACKAGE = "assay_sandbox"
_LOAD, _EXECUTE = SourceFileLoader.get_code, SourceFileLoader.exec_module


def hide_paths() -> None:
    """Hide the paths of the package's modules, loaded already or imported before `finish`."""
    load, execute = _LOAD, _EXECUTE

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        code = load(self, name)
        if code is not None and _is_own(name):
            # The import system itself uses this function for moved modules.
            _imp._fix_co_filename(code, _shown(name))  # type: ignore[attr-defined]
        return code

    def exec_module(self: SourceFileLoader, module: ModuleType) -> None:
        execute(self, module)
        if _is_own(module.__name__):
            _rename(module)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign, assignment]
    for name, module in list(sys.modules.items()):
        if _is_own(name):
            _rename(module)


def finish() -> None:
    """Restore Python's own import, after the package has imported all its modules.

    Otherwise a traceback of a program would show frames from here.
    """
    SourceFileLoader.get_code = _LOAD  # type: ignore[method-assign]
    SourceFileLoader.exec_module = _EXECUTE  # type: ignore[method-assign]


def move(folder: str, place: str) -> None:
    """Make modules imported from `folder` find their parts in `place`, its path in slots.

    Their code keeps the names of its files: tracebacks show no lines of them.
    """
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not path.startswith(f"{folder}/"):
            continue
        module.__file__ = place + path.removeprefix(folder)
        spec = module.__spec__
        if spec is None:
            continue
        spec.origin = module.__file__
        if spec.submodule_search_locations is not None:
            moved = [place + one.removeprefix(folder) for one in spec.submodule_search_locations]
            module.__path__[:] = spec.submodule_search_locations[:] = moved


def _is_own(name: str) -> bool:
    return name.partition(".")[0] == _PACKAGE


def _shown(name: str) -> str:
    return f"/assay/{name.replace('.', '/')}.py"


def _rename(module: ModuleType) -> None:
    path = _shown(module.__name__)
    module.__file__ = path
    module.__cached__ = None  # type: ignore[attr-defined]
    if module.__spec__ is not None:
        module.__spec__.origin = path
        module.__spec__.cached = None
