"""What test code may use of Python's library in its own process, and what it may not."""

import builtins
import sys

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
HELPERS = frozenset(dir(builtins)) | sys.stdlib_module_names | _COMPARERS
UNSAFE_BUILTINS = frozenset(
    [
        *("exec", "eval", "compile", "open", "input", "breakpoint", "exit", "quit", "globals"),
        *("locals", "vars", "setattr", "delattr", "__import__", "help", "memoryview"),
    ]
)


def is_pure(module: str) -> bool:
    """Whether what the module does touches nothing but its arguments."""
    return module.partition(".")[0] in PURE_MODULES
