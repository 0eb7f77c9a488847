"""A reward function for verl: one request to Assay's sandbox for all tests of an answer.

The function asks a failing or full sandbox again for `give_up_after_s`; then it raises. It returns
a score only for a judged answer. See README.md in this folder.
"""

import asyncio
import json
from typing import Any

from assay_shared.clients import RetryBudget, SandboxClient
from assay_shared.errors import SandboxFault
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import (
    AssertCase,
    CallCase,
    Limits,
    Status,
    StdinCase,
    TestCase,
    TestReport,
    TestRequest,
)

_RETRIES = 10_000  # time is what bounds them
#: What verl's wrapper imports for answers that are called: `List[int]` needs no import there.
_MODULES = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json builtins typing"
)
_NAMES = "".join(f"from {name} import *\nimport {name}\n" for name in _MODULES.split())
#: A method of `class Solution` becomes a function; each call has a new instance.
_FUNCTION = """
if {name!r} not in globals():
    def {name}(*args):
        return Solution().{name}(*args)
"""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str | dict[str, Any],
    extra_info: dict[str, Any] | None = None,
    *,
    url: str = "http://127.0.0.1:8002",
    continuous: bool = True,
    timeout_s: float = 10.0,
    memory_bytes: int = 1024 * 2**20,
    give_up_after_s: float = 300.0,
    **unused: object,
) -> dict[str, float]:
    """Return the share of passed tests as `score`, and 1 or 0 for all of them as `acc`.

    An answer without a code block scores 0: the policy forgot it.

    Args:
        ground_truth: verl's test cases or their JSON: `inputs` and `outputs`, with `fn_name` for
            calls of a function, or `assert_case`.
        continuous: True gives a score to an answer with some tests passed.
        timeout_s: CPU time of each test; wall time is bounded by twice as much.
        unused: verl's arguments for a reward model.

    Raises:
        InfrastructureError: the sandbox could not judge the answer.
        LookupError, ValueError: the test cases cannot be read.
    """
    code = extract_code(solution_str)
    if code is None:
        return {"score": 0.0, "acc": 0.0}
    tests = json.loads(ground_truth) if isinstance(ground_truth, str) else ground_truth
    prelude, epilogue, cases = to_cases(tests)
    request = TestRequest(
        code=prelude + code + epilogue,
        cases=cases,
        limits=Limits(cpu_time_s=timeout_s, wall_time_s=2 * timeout_s, memory_bytes=memory_bytes),
        stop_on_first_failure=not continuous,
    )
    report = asyncio.run(_judge(request, url, give_up_after_s))
    acc = float(report.status is Status.ACCEPTED)
    return {"score": report.pass_ratio if continuous else acc, "acc": acc}


async def _judge(request: TestRequest, url: str, give_up_after_s: float) -> TestReport:
    token = ServiceSettings().token_of("sandbox")
    retry = RetryBudget(attempts=_RETRIES, total_s=give_up_after_s)
    async with SandboxClient(url, token=token, retry=retry) as sandbox:
        report = await sandbox.test(request)
    if any(case.status is Status.SANDBOX_ERROR for case in report.cases):
        raise SandboxFault("the sandbox could not run a case")
    return report


def extract_code(solution: str) -> str | None:
    """Return the last block marked as Python, else the first block; None without any."""
    fenced = (block.partition("\n") for block in solution.split("```")[1::2])
    blocks = [(tag.strip().lower(), code) for tag, newline, code in fenced if newline]
    marked = [code for tag, code in blocks if tag in ("python", "py", "python3")]
    if marked:
        return marked[-1]
    return blocks[0][1] if blocks else None


def to_cases(tests: dict[str, Any]) -> tuple[str, str, tuple[TestCase, ...]]:
    """Return the code before and after the answer's code, and the cases."""
    if "assert_case" in tests:
        if any(output is not None for output in tests.get("outputs", [])):
            raise ValueError("assert_case: a case either asserts or has an output")
        return "", "", tuple(AssertCase(code=code) for code in tests["assert_case"])
    pairs = list(zip(tests["inputs"], tests["outputs"], strict=True))
    name = tests.get("fn_name")
    if name is None:
        return (
            "",
            "",
            tuple(
                StdinCase(stdin=given or "", expected_stdout=expected) for given, expected in pairs
            ),
        )
    calls = tuple(
        CallCase(function=name, args=_arguments(given), expected=_value(expected))
        for given, expected in pairs
    )
    return _NAMES, _FUNCTION.format(name=name), calls


def _arguments(given: Any) -> tuple[Any, ...]:
    """Return JSON values, a line each."""
    if isinstance(given, str):
        return tuple(json.loads(line) for line in given.split("\n") if line.strip())
    return tuple(given)


def _value(expected: Any) -> Any:
    """Return parsed JSON; other text stays text, as verl's wrapper prints a string."""
    if not isinstance(expected, str):
        return expected
    try:
        return json.loads(expected)
    except json.JSONDecodeError:
        return expected
