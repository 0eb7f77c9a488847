"""Which part of a reply is the workflow."""

import pytest

from assay_reward.workflows.playing.reading import read_here

FLOW = 'a = Custom(input=problem, instruction="x")\nreturn a.response'
BLOCK = f"```workflow\n{FLOW}\n```"
REPLIES = [
    FLOW,
    BLOCK,
    BLOCK.replace("\n", "\r\n"),
    BLOCK.replace("workflow", "workflow title=mine"),
    BLOCK.replace("```", "~~~"),
    BLOCK.replace("```", "````"),
    BLOCK.removesuffix("```"),
    f"{BLOCK}\nIn short:\n```mermaid\ngraph TD\n```",
    f'{BLOCK}\nIts result:\n```json\n{{"answer": 42}}\n```\n```\n```',
    f"```\nreturn nothing\n```\n{BLOCK}",
]


@pytest.mark.parametrize("reply", REPLIES)
def test_the_last_block_that_can_be_read_is_the_workflow(reply: str) -> None:
    read = read_here(reply, repair=False)
    assert read.problems == ()
    assert read.source.replace("\r\n", "\n").strip() == FLOW


def test_a_later_workflow_with_a_problem_counts() -> None:
    read = read_here(f"{BLOCK}\n```\nreturn nothing\n```", repair=True)
    assert read.problems[0].startswith("line 1, column 8: there is no nothing")


def test_without_a_workflow_the_problem_is_that_of_the_last_block() -> None:
    read = read_here("```\nretrun a\n```\n```\ngraph TD\n```", repair=True)
    assert read.problems[0].startswith("line 1, column 1: graph does not begin a step")
