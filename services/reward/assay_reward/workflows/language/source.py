"""Reads a source in either form, and checks it: the way into the language.

All functions are pure and their work is bounded by the source's length, which is checked first.
The worst source known, of 16,384 characters, takes 0.15 s of a core: call them off an event loop,
on a thread or in a process.
"""

import re
from enum import StrEnum

from assay_reward.workflows.language.checker import CheckedWorkflow, check_tree
from assay_reward.workflows.language.limits import DEFAULT_LIMITS, WorkflowLimits
from assay_reward.workflows.language.python_form.parser import read_python
from assay_reward.workflows.language.python_form.printer import python_form
from assay_reward.workflows.language.signatures import OPERATORS, Signatures
from assay_reward.workflows.language.slips import Slip
from assay_reward.workflows.language.text_form.parser import parse_text
from assay_reward.workflows.language.text_form.printer import text_form
from assay_reward.workflows.language.tree import Workflow

#: Words that begin a line of Python and of no step in text form.
_PYTHON = re.compile(r"^[ \t]*(?:async|def|import|from|class)\b", re.MULTILINE)


class WorkflowForm(StrEnum):
    """The two written forms of a workflow."""

    TEXT = "text"
    PYTHON = "python"


def form_of(source: str, limits: WorkflowLimits = DEFAULT_LIMITS) -> WorkflowForm:
    """Return the form that a source seems to have, by the first words of its lines."""
    found = _PYTHON.search(source[: limits.max_chars])
    return WorkflowForm.PYTHON if found else WorkflowForm.TEXT


def read_workflow(
    source: str, form: WorkflowForm, limits: WorkflowLimits = DEFAULT_LIMITS
) -> tuple[Workflow, tuple[Slip, ...]]:
    """Return the tree, and the words that are missing in the source (Python form alone).

    Raises:
        InvalidWorkflow: with the first problem.
    """
    if form is WorkflowForm.PYTHON:
        return read_python(source, limits)
    return parse_text(source, limits), ()


def check_source(
    source: str,
    form: WorkflowForm,
    signatures: Signatures = OPERATORS,
    limits: WorkflowLimits = DEFAULT_LIMITS,
) -> CheckedWorkflow:
    """Return the tree with all its problems, and its largest cost.

    Raises:
        InvalidWorkflow: the source cannot be read, so there is no tree.
    """
    tree, slips = read_workflow(source, form, limits)
    return check_tree(tree, signatures, limits, [slip.problem() for slip in slips])


def print_workflow(tree: Workflow, form: WorkflowForm) -> str:
    """Return the canonical source of a tree."""
    return python_form(tree) if form is WorkflowForm.PYTHON else text_form(tree)
