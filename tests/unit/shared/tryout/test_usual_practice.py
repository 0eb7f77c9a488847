"""Graders of usual practice give the verdicts that such graders give."""

import pytest

from assay_sandbox.app import create_app
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import SandboxClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.tryout.given import read_groups
from assay_shared.tryout.usual_practice import (
    UsualPractice,
    first_verdict,
    last_value,
    script_of,
)
from assay_shared.types import AssertCase, CallCase, Task
from assay_shared.verdicts.compared import Nature
from tests.conftest import Serve

TASK = Task(
    prompt="Write double(x).",
    rubric="code.sparse",
    tests=(
        CallCase(function="double", args=(4,), expected=8),
        CallCase(function="double", args=("a",), expected="aa"),
    ),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("It is 12.", 1.0),
        ("\\boxed{12}, half of 24", 1.0),
        ("\\boxed{11} or \\boxed{12}", 1.0),
        ("12.0", 0.0),
        ("1,200 and not 12", 1.0),
        ("\\boxed{\\frac{24}{2}}", 0.0),
        ("none", 0.0),
    ],
)
def test_values_are_compared_as_texts(text: str, value: float) -> None:
    assert last_value(Task(reference="12"), text).value == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"verdict": "CORRECT"}', 1.0),
        ('{"verdict": "INCORRECT"}', 0.0),
        ('<think>It is not CORRECT.</think>{"verdict": "INCORRECT"}', 1.0),
        ("", 0.0),
        ("no idea", 0.0),
    ],
)
def test_the_first_verdict_word_counts(reply: str, value: float) -> None:
    assert first_verdict(reply).value == value


def test_a_script_has_the_program_and_the_asserts() -> None:
    task = TASK.model_copy(update={"tests": (*TASK.tests[:1], AssertCase(code="assert True"))})
    script = script_of(task, "Here:\n```python\ndouble = abs\n```")
    assert script.split() == [
        "double",
        "=",
        "abs",
        "assert",
        "double(4)",
        "==",
        "8",
        "assert",
        "True",
    ]


@pytest.mark.slow
async def test_programs_run_and_most_cheats_are_paid(serve: Serve) -> None:
    url = serve(create_app(SandboxSettings(sandbox_slots=2)))
    async with SandboxClient(url, retry=NO_RETRY) as sandbox:
        usual = UsualPractice(sandbox, "http://127.0.0.1:1", "none")
        for text, value, verdict in (
            ("def double(x): return x * 2", 1.0, "exit code 0"),
            ("def double(x): return x", 0.0, "exit code 1"),
            ("import os\nos.abort()", 0.0, "exit code -6"),
            ("import sys\nsys.exit(0)", 1.0, "exit code 0"),
        ):
            got = await usual.reward(TASK, text)
            assert (got.value, got.verdict) == (value, verdict), (text, got)
        group = next(one for one in read_groups() if one.task.id == "gcd")
        for answer in group.answers:
            paid = (await usual.reward(group.task, answer.text)).value
            assert paid == float(answer.nature is not Nature.WRONG), answer.note


async def test_a_failure_is_a_zero() -> None:
    async with SandboxClient("http://127.0.0.1:1", retry=NO_RETRY) as sandbox:
        usual = UsualPractice(sandbox, "http://127.0.0.1:1", "none")
        for task in (TASK, Task(prompt="p", rubric="qa")):
            got = await usual.reward(task, "x")
            assert (got.value, got.verdict) == (0.0, "exception")
