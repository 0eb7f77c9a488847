"""What SandboxFusion's judge takes for the program in a completion."""

import time

import pytest

from assay_sandbox.sandbox_fusion_extract import extract


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
