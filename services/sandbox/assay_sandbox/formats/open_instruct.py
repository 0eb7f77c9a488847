"""open-instruct's wire format for Python: 1 or 0 for each test, and how long it took.

The format has no value for a failure of ours: the answer is then an error status, never a 0.
"""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import from_json

from assay_shared.service.bodies.body import check_size
from assay_shared.types import (
    MAX_CASES,
    AssertCase,
    CaseResult,
    Comparison,
    Limits,
    Status,
    StdinCase,
    TestRequest,
    Utf8Text,
    at_most,
)

_SOME = Field(min_length=1)
_NOT_PASSED_S = -1.0
_MEMORY_BYTES = 1024 * 2**20
#: Run the program as a module: as in open-instruct, code below `if __name__ == "__main__"` must
#: not run.
_AS_MODULE = """__name__ = 'builtins'
exec(compile({!r}, 'main.py', 'exec'))
"""
#: In open-instruct, a program that reads stdin has these names without imports, and its `sys.exit`
#: is not a failure, whatever the status.
_STAR_MODULES = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json builtins typing"
)
_AS_SCRIPT = (
    "".join(f"from {name} import *\nimport {name}\n" for name in _STAR_MODULES.split())
    + """sys.setrecursionlimit(50000)
try:
    exec(compile({!r}, 'main.py', 'exec'))
except SystemExit:
    pass
"""
)


def _parse(tests: object) -> object:
    """Return the tests; parse them if they come as JSON in a string.

    open-instruct's pickled form is refused: unpickling would run the sender's code.
    """
    if not isinstance(tests, str):
        return tests
    try:
        content = tests.encode()
    except UnicodeEncodeError:
        raise ValueError("must be Unicode text without lone surrogates") from None
    check_size(content)
    return from_json(content)


class IoTest(BaseModel):
    """A stdin test: the input and the expected output."""

    input: str
    output: Utf8Text


class _Request(BaseModel):
    program: str
    max_execution_time: float = Field(default=1.0, gt=0, le=300)

    def _limits(self) -> Limits:
        """Return the limits: `max_execution_time` bounds CPU time, and wall time twice as far.

        In open-instruct it bounds wall time itself.
        """
        seconds = self.max_execution_time
        wall_time_s = max(2 * seconds, seconds + 1)
        return Limits(cpu_time_s=seconds, wall_time_s=wall_time_s, memory_bytes=_MEMORY_BYTES)


class AssertRequest(_Request):
    """POST /test_program: each test is code that raises an error on failure."""

    tests: Annotated[list[str], at_most(MAX_CASES), BeforeValidator(_parse), _SOME]

    def to_test(self) -> TestRequest:
        """Return the request in this sandbox's format."""
        cases = tuple(AssertCase(code=test) for test in self.tests)
        return TestRequest(code=_AS_MODULE.format(self.program), cases=cases, limits=self._limits())


class StdioRequest(_Request):
    """POST /test_program_stdio."""

    tests: Annotated[list[IoTest], at_most(MAX_CASES), BeforeValidator(_parse), _SOME]

    def to_test(self) -> TestRequest:
        """Return the request in this sandbox's format."""
        cases = tuple(
            StdinCase(
                stdin=test.input,
                expected_stdout=test.output,
                compare=Comparison.NUMBERS,
                tolerance=0,
            )
            for test in self.tests
        )
        return TestRequest(code=_AS_SCRIPT.format(self.program), cases=cases, limits=self._limits())


class OpenInstructResults(BaseModel):
    """For each test: 1 and its seconds of wall time if it passed, or else 0 and -1."""

    results: list[int]
    runtimes: list[float]


def from_cases(cases: tuple[CaseResult, ...]) -> OpenInstructResults:
    """Return the verdicts in open-instruct's format."""
    passed = [case.status is Status.ACCEPTED for case in cases]
    return OpenInstructResults(
        results=[int(one) for one in passed],
        runtimes=[
            case.wall_time_s if one else _NOT_PASSED_S
            for case, one in zip(cases, passed, strict=True)
        ],
    )
