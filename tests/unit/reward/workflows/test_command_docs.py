"""The examples of docs/workflows.md are true."""

import re
from pathlib import Path

import pytest

from assay_reward.workflows.language.limits import DEFAULT_LIMITS
from assay_reward.workflows.language.problems import InvalidWorkflow, ProblemKind
from assay_reward.workflows.language.signatures import OPERATORS, ValueType
from assay_reward.workflows.language.source import WorkflowForm, check_source, read_workflow
from assay_reward.workflows.repair.edits import RepairKind
from assay_reward.workflows.repair.repair import repair_source

PAGE = (Path(__file__).parents[4] / "docs" / "workflows.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_are_valid() -> None:
    for language, form in (("workflow", WorkflowForm.TEXT), ("python", WorkflowForm.PYTHON)):
        found = blocks(language)
        assert len(found) == 2
        for source in found:
            assert check_source(source, form).problems == ()


def test_the_first_example_has_the_same_tree_in_both_forms() -> None:
    text, _ = read_workflow(blocks("workflow")[0], WorkflowForm.TEXT)
    python, _ = read_workflow(blocks("python")[0], WorkflowForm.PYTHON)
    assert text == python


def test_the_example_of_a_repair_gives_its_diff() -> None:
    repaired = repair_source(blocks("workflow-broken")[0], WorkflowForm.TEXT)
    assert repaired.checked.valid
    assert repaired.diff() == blocks("diff")[0]


ERRORS = re.findall(r"^\| `(.+)` \| `(line .+)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("source", "problem"), ERRORS)
def test_a_source_of_the_table_of_errors_has_its_problem(source: str, problem: str) -> None:
    try:
        problems = check_source(source, WorkflowForm.TEXT).problems
    except InvalidWorkflow as error:
        problems = error.problems
    assert problem in [str(one) for one in problems]


def test_tables_list_all_operators_kinds_and_limits() -> None:
    assert len(ERRORS) == 8
    marks = {ValueType.TEXT: "", ValueType.BOOLEAN: " (boolean)", ValueType.TEXTS: " (list)"}
    for name, signature in OPERATORS.items():
        parameters = ", ".join(
            f"`{parameter}`{marks[one.type]}{'' if one.required else ' (optional)'}"
            for parameter, one in signature.parameters.items()
        )
        fields = ", ".join(f"`{field}`{marks[one]}" for field, one in signature.fields.items())
        assert f"| `{name}` | {parameters} | {fields} | {signature.model_calls} |" in PAGE
    assert f"Kinds: {', '.join(f'`{kind}`' for kind in ProblemKind)}." in PAGE
    assert all(f"`{kind}`" in PAGE for kind in RepairKind)
    for limit in (DEFAULT_LIMITS.max_chars, DEFAULT_LIMITS.max_nodes, DEFAULT_LIMITS.max_tokens):
        assert f"{limit:,}" in PAGE
    costs = f"| {DEFAULT_LIMITS.max_operator_calls}, {DEFAULT_LIMITS.max_model_calls} |"
    assert costs in PAGE
