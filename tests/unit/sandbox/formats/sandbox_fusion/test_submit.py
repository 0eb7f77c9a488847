"""The program in a completion, as SandboxFusion's judge reads it."""

import time

import pytest

from assay_sandbox.formats.sandbox_fusion.extract import extract, find_blocks
from assay_sandbox.formats.sandbox_fusion.programs import is_late
from assay_shared.types import ExecutionResult, Status


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("```python\na\n```", "a"),
        ("see ```py\n a \n\n \n  ```", " a "),
        ("```\n\n```", ""),
        ("```python\n```\n", "```\n"),
        ("```python\n```\n```", "```"),
        ("```js\na\n``` or ```python\nb\n```", "b"),
        ("```js\na\n```\n```\nb\n```", "a"),
        ("```python\na\n```\n```python\nb", "a"),
        ("```a", ""),
        ("print(1)", ""),
    ],
)
def test_the_first_block_in_the_language_is_the_program(completion: str, code: str) -> None:
    assert extract(completion, "python") == code


@pytest.mark.parametrize("text", ["```\n" + "\n" * 300_000, "```x\n" * 100_000, " x\n" * 200_000])
def test_no_completion_takes_long(text: str) -> None:
    started = time.perf_counter()
    extract(text, "python")
    assert time.perf_counter() - started < 5


def test_blocks_are_counted() -> None:
    assert len(find_blocks("```\nx\n```\n" * 5000, "python")) == 1000


@pytest.mark.parametrize(
    ("cpu_time_s", "idle_time_s", "late"),
    [(0.0, 1.1, True), (0.0, 0.9, False), (0.9, 0.2, True), (0.9, 0.0, False)],
)
def test_what_a_program_computes_and_sleeps_counts(
    cpu_time_s: float, idle_time_s: float, late: bool
) -> None:
    result = ExecutionResult(
        status=Status.ACCEPTED,
        cpu_time_s=cpu_time_s,
        idle_time_s=idle_time_s,
        wall_time_s=1.9,
        isolation="pooled",
    )
    assert is_late(result, 1.0) is late
    assert is_late(result.model_copy(update={"status": Status.TIME_LIMIT}), 1.0)
