"""Analysis of test code before it runs: finds parts only the program's own process can run."""

import ast
import builtins

from assay_sandbox.slot.grading.library import PURE_MODULES

#: Names with a reach beyond the values compared by test code.
_UNSAFE_NAMES = frozenset(
    [
        "exec",
        "eval",
        "compile",
        "open",
        "input",
        "breakpoint",
        "exit",
        "quit",
        "globals",
        "locals",
        "vars",
        "dir",
        "setattr",
        "delattr",
        "__import__",
        "help",
        "__builtins__",
        "__file__",
        "__loader__",
        "__spec__",
    ]
)
_SYS_FACTS = frozenset({"maxsize", "float_info", "maxunicode", "version_info", "byteorder"})
SAME, TYPE_OF, FRESH = "__assay_same__", "__assay_type__", "__assay_fresh__"
_ITERATORS = frozenset({"iter", "map", "filter", "zip", "enumerate", "reversed"})
_SINGLETONS = (type(None), bool, type(Ellipsis))


class OnlyInside(Exception):
    """The test code can only be run in the program's process."""


class Prepared(ast.NodeTransformer):
    """Checker of test code. Replaces identity and `type`: a stand-in would falsify their result."""

    def __init__(self) -> None:
        self._imported: set[str] = set()
        #: Names declared global by functions: these set them without the grader's notice.
        self.global_names: set[str] = set()
        self._own_functions: set[str] = set()

    def prepare(self, code: str) -> object:
        """Return the code object to run.

        Raises:
            OnlyInside: the test code acts on its process.
            SyntaxError, ValueError, RecursionError: the test code does not parse.
        """
        tree = ast.parse(code, "test.py")
        self._own_functions = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        tree = ast.fix_missing_locations(self.visit(tree))
        return compile(tree, "test.py", "exec", dont_inherit=True)

    def visit_Import(self, node: ast.Import) -> ast.AST:
        for one in node.names:
            self._import(one.name)
            self._imported.add((one.asname or one.name).partition(".")[0])
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.level or node.module is None:
            raise OnlyInside("it imports the program's own module")
        self._import(node.module)
        if node.module == "sys":
            raise OnlyInside("it uses sys")
        if any(one.name in _UNSAFE_NAMES for one in node.names):
            raise OnlyInside("it imports a function able to act on its process")
        if any(one.name == "seed" for one in node.names):
            raise OnlyInside("it seeds a generator, but the program's process has another")
        return node

    def _import(self, module: str) -> None:
        name = module.partition(".")[0]
        if name not in PURE_MODULES and name not in ("sys", "builtins"):
            raise OnlyInside(f"it imports {module}")

    def visit_Global(self, node: ast.Global) -> ast.AST:
        self.global_names.update(node.names)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in _UNSAFE_NAMES:
            raise OnlyInside(f"it uses {node.id}")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        base = node.value
        if isinstance(base, ast.Name) and base.id in self._imported:
            if not isinstance(node.ctx, ast.Load):
                raise OnlyInside(f"it changes {base.id}.{node.attr}")
            if base.id == "sys" and node.attr not in _SYS_FACTS:
                raise OnlyInside(f"it uses sys.{node.attr}")
        if node.attr in _UNSAFE_NAMES:
            raise OnlyInside(f"it uses {node.attr}")
        if node.attr == "seed":
            raise OnlyInside("it seeds a generator, but the program's process has another")
        return self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        if not (isinstance(node.cls, ast.Name) and hasattr(builtins, node.cls.id)):
            raise OnlyInside("it matches the pattern of a class")
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.decorator_list:
            raise OnlyInside("it decorates a function, and the program may inspect the function")
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        raise OnlyInside("it is asynchronous")

    def visit_Await(self, node: ast.Await) -> ast.AST:
        raise OnlyInside("it is asynchronous")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("type", "id"):
            if node.func.id == "id":
                raise OnlyInside("it uses id")
            node.func = ast.copy_location(ast.Name(TYPE_OF, ast.Load()), node.func)
        elif isinstance(node.func, ast.Name) and not self._is_own(node.func.id):
            node.args = [_noted(one) if _is_fresh(one) else one for one in node.args]
        return node

    def _is_own(self, function: str) -> bool:
        """Return True for a function of the test's and for `iter`: they may name the iterator."""
        return function in self._own_functions or function == "iter"

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if not any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return node
        if len(node.ops) > 1:
            raise OnlyInside("it compares identity in a chain")
        left, right = node.left, node.comparators[0]
        if _is_singleton(left) or _is_singleton(right):
            return node
        call: ast.expr = ast.Call(ast.Name(SAME, ast.Load()), [left, right], [])
        if isinstance(node.ops[0], ast.IsNot):
            call = ast.UnaryOp(ast.Not(), call)
        return ast.copy_location(call, node)


def _is_fresh(node: ast.expr) -> bool:
    """Return True if the expression makes an iterator without a name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in _ITERATORS
    return isinstance(node, ast.GeneratorExp)


def _noted(node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(FRESH, ast.Load()), [node], []), node)


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in _SINGLETONS
