"""CPython's own tests as programs: each module prints the result of each of its tests.

They come with a full build of the interpreter; other builds have none.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from assay_sandbox.equivalence.subjects import Subject

#: Modules about the language, its start and end, streams, processes and threads.
MODULES = (
    "test_argparse",
    "test_array",
    "test_ast",
    "test_asyncgen",
    "test_atexit",
    "test_augassign",
    "test_base64",
    "test_binascii",
    "test_bisect",
    "test_bool",
    "test_buffer",
    "test_bufio",
    "test_builtin",
    "test_bytes",
    "test_call",
    "test_class",
    "test_cmath",
    "test_cmd",
    "test_code",
    "test_codecs",
    "test_codeop",
    "test_collections",
    "test_compare",
    "test_complex",
    "test_context",
    "test_contextlib",
    "test_copy",
    "test_copyreg",
    "test_coroutines",
    "test_csv",
    "test_dataclasses",
    "test_decorators",
    "test_defaultdict",
    "test_deque",
    "test_descr",
    "test_dict",
    "test_dictviews",
    "test_dis",
    "test_dynamic",
    "test_dynamicclassattribute",
    "test_enum",
    "test_enumerate",
    "test_except_star",
    "test_exception_group",
    "test_exception_hierarchy",
    "test_exceptions",
    "test_extcall",
    "test_file",
    "test_fileio",
    "test_float",
    "test_fnmatch",
    "test_format",
    "test_fractions",
    "test_frame",
    "test_frozen",
    "test_fstring",
    "test_funcattrs",
    "test_functools",
    "test_future",
    "test_gc",
    "test_generator_stop",
    "test_generators",
    "test_genericclass",
    "test_genexps",
    "test_getopt",
    "test_glob",
    "test_global",
    "test_grammar",
    "test_graphlib",
    "test_hash",
    "test_hashlib",
    "test_heapq",
    "test_hmac",
    "test_html",
    "test_index",
    "test_inspect",
    "test_int",
    "test_int_literal",
    "test_isinstance",
    "test_iter",
    "test_itertools",
    "test_keyword",
    "test_keywordonlyarg",
    "test_linecache",
    "test_list",
    "test_listcomps",
    "test_locale",
    "test_long",
    "test_memoryio",
    "test_memoryview",
    "test_metaclass",
    "test_module",
    "test_named_expressions",
    "test_numeric_tower",
    "test_opcodes",
    "test_operator",
    "test_ordered_dict",
    "test_os",
    "test_patma",
    "test_pickle",
    "test_popen",
    "test_posixpath",
    "test_pow",
    "test_pprint",
    "test_print",
    "test_property",
    "test_pulldom",
    "test_queue",
    "test_raise",
    "test_random",
    "test_range",
    "test_re",
    "test_reprlib",
    "test_richcmp",
    "test_runpy",
    "test_scope",
    "test_secrets",
    "test_set",
    "test_shelve",
    "test_shlex",
    "test_shutil",
    "test_signal",
    "test_slice",
    "test_sort",
    "test_sqlite3",
    "test_statistics",
    "test_str",
    "test_string",
    "test_stringprep",
    "test_struct",
    "test_structseq",
    "test_subclassinit",
    "test_subprocess",
    "test_super",
    "test_symtable",
    "test_syntax",
    "test_sys",
    "test_tempfile",
    "test_textwrap",
    "test_thread",
    "test_threading",
    "test_threading_local",
    "test_time",
    "test_timeit",
    "test_tokenize",
    "test_traceback",
    "test_tuple",
    "test_type_comments",
    "test_types",
    "test_typing",
    "test_unary",
    "test_univnewlines",
    "test_unpack",
    "test_unpack_ex",
    "test_urlparse",
    "test_userdict",
    "test_userlist",
    "test_userstring",
    "test_utf8_mode",
    "test_uuid",
    "test_warnings",
    "test_weakref",
    "test_weakset",
    "test_with",
    "test_yield_from",
    "test_zipfile",
    "test_zipimport",
    "test_zlib",
)

#: Prints a line for each test, sorted by name; the exit code is 1 if a test failed.
_DRIVER = '''\
import sys
import unittest


class Lines(unittest.TestResult):
    """Collects how each test ended; keeps the traceback of failures for standard error."""

    def __init__(self):
        super().__init__()
        self.ends = {}

    def stopTest(self, test):
        super().stopTest(test)
        self.ends.setdefault(test.id(), "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.ends[test.id()] = "skipped"

    def addFailure(self, test, error):
        self.note(test, "failed", error)
        super().addFailure(test, error)

    def addError(self, test, error):
        self.note(test, "error", error)
        super().addError(test, error)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note(test, "failed", error)
        super().addSubTest(test, subtest, error)

    def note(self, test, how, error):
        self.ends[test.id()] = how
        text = " ".join(str(error[1]).split())[:300]
        print("%s: %s: %s" % (test.id(), error[0].__name__, text), file=sys.stderr)


def main():
    result = Lines()
    tests = unittest.defaultTestLoader.loadTestsFromName("test." + NAME)
    out, sys.stdout = sys.stdout, sys.stderr
    tests.run(result)
    sys.stdout = out
    for name in sorted(result.ends):
        print(result.ends[name], name)
    sys.exit(not result.wasSuccessful())


NAME = "{module}"
if __name__ == "__main__":
    main()
'''


def cpython_subjects(data: Path) -> Iterator[Subject]:
    """Yield a script for each test module of this process's interpreter."""
    for module in MODULES:
        if _exists(module):
            yield Subject(module, "cpython", "script", _DRIVER.replace("{module}", module))


def _exists(module: str) -> bool:
    return (
        importlib.util.find_spec("test") is not None
        and importlib.util.find_spec(f"test.{module}") is not None
    )
