"""Round trips between trees and both written forms, and the choice of a form."""

import pytest
from hypothesis import HealthCheck, given, settings

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.source import (
    WorkflowForm,
    check_source,
    form_of,
    print_workflow,
    read_workflow,
)
from assay_reward.workflows.language.tree import Workflow
from tests.support.workflow_trees import workflows

#: Trees of the strategies are valid in form alone, and may be large.
ROOMY = WorkflowLimits(max_chars=1_000_000, max_tokens=100_000, max_nodes=100_000, max_loop_depth=9)
ROUND_TRIPS = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@ROUND_TRIPS
@given(workflows())
@pytest.mark.parametrize("form", WorkflowForm)
def test_a_printed_tree_is_read_as_the_same_tree(form: WorkflowForm, tree: Workflow) -> None:
    printed = print_workflow(tree, form)
    again, slips = read_workflow(printed, form, ROOMY)
    assert again == tree
    assert not slips
    assert print_workflow(again, form) == printed


@ROUND_TRIPS
@given(workflows())
def test_text_becomes_python_and_text_again(tree: Workflow) -> None:
    text = print_workflow(tree, WorkflowForm.TEXT)
    read, _ = read_workflow(text, WorkflowForm.TEXT, ROOMY)
    python = print_workflow(read, WorkflowForm.PYTHON)
    back, _ = read_workflow(python, WorkflowForm.PYTHON, ROOMY)
    assert print_workflow(back, WorkflowForm.TEXT) == text


@given(workflows())
@settings(ROUND_TRIPS, max_examples=30)
def test_a_form_is_recognised(tree: Workflow) -> None:
    for form in WorkflowForm:
        assert form_of(print_workflow(tree, form), ROOMY) is form


def test_what_is_missing_in_python_is_a_problem_of_its_check() -> None:
    source = "async def workflow(problem):\n    a = Custom(input=problem)\n    return a.response\n"
    problems = [str(one) for one in check_source(source, WorkflowForm.PYTHON).problems]
    assert problems == [
        "line 2, column 9: Custom lacks instruction (it needs input, instruction)",
        "line 2, column 9: await is missing (write await)",
    ]
