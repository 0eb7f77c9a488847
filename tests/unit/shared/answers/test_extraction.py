"""Fenced blocks of a text, as models write them."""

import pytest

from assay_shared.answers.extraction import fenced

OPENINGS = [
    "```",
    "```python",
    "```python title=x",
    '```python {"a": 1}',
    "``` python",
    "````",
    "~~~",
    "  ```c++",
    "```py \t",
]


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_fence_opens_a_block(opening: str, end: str) -> None:
    mark = opening.strip()[: 4 if opening == "````" else 3]
    text = end.join(("Sure:", opening, "x = 1", mark, "That is it.", "```", "y", "```"))
    assert [block.strip() for block in fenced(text)] == ["x = 1", "y"]


def test_marks_inside_a_line_open_no_block() -> None:
    assert fenced("Use ```x``` and ``` as marks\nin a text ```\n") == []


def test_a_block_without_an_end_is_taken_if_asked_for() -> None:
    text = "```\na\n```\n```workflow\nreturn problem\n"
    assert fenced(text) == ["a\n"]
    assert fenced(text, unclosed=True) == ["a\n", "return problem\n"]
