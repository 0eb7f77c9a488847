"""The parts of Python's library allowed to test code in its own process, and refused parts."""

import builtins
import sys

#: Modules allowed to test code here: they touch nothing but their arguments.
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
#: Names of comparison helpers: a program could define them and so decide a comparison.
_COMPARERS = frozenset(
    {"isclose", "fabs", "allclose", "array_equal", "approx", "numpy", "np", "pd", "pandas", "sp"}
)
HELPERS = frozenset(dir(builtins)) | sys.stdlib_module_names | _COMPARERS
UNSAFE_BUILTINS = frozenset(
    [
        *("exec", "eval", "compile", "open", "input", "breakpoint", "exit", "quit", "globals"),
        *("locals", "vars", "setattr", "delattr", "__import__", "help", "memoryview"),
    ]
)


def is_pure(module: str) -> bool:
    """Return True if the module's functions touch nothing but their arguments."""
    return module.partition(".")[0] in PURE_MODULES
