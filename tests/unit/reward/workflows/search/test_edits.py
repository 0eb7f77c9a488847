"""Edits of workflows: each is valid, is one change, and leads back."""

import pytest

from assay_reward.workflows.comparison.candidates import fixed_candidates
from assay_reward.workflows.language.source import WorkflowForm, check_source
from assay_reward.workflows.language.tree import Workflow
from assay_reward.workflows.search.edits import TreeEdit, edits_of


def tree_of(source: str) -> Workflow:
    checked = check_source(source, WorkflowForm.TEXT)
    assert checked.valid, checked.problems
    return checked.tree


DIRECT = "found = AnswerGenerate(input=problem)\nreturn found.answer\n"
PROGRAM = "found = Programmer(problem=problem)\nreturn found.output\n"


def edited(source: str, is_code: bool = False) -> dict[str, TreeEdit]:
    return {one.source: one for one in edits_of(tree_of(source), is_code)}


def test_all_edits_of_edits_are_valid_and_change_something() -> None:
    for is_code in (False, True):
        seen: set[str] = set()
        waiting = [
            source
            for one in fixed_candidates()
            if (source := one.for_code if is_code else one.default) is not None
        ]
        for _ in range(2):
            found = [edit for source in waiting for edit in edits_of(tree_of(source), is_code)]
            seen |= {one.source for one in found}
            waiting = sorted({one.source for one in found})
        assert len(seen) > 50
        for source in seen:
            tree_of(source)


def test_a_solver_is_replaced_with_its_field() -> None:
    assert PROGRAM in edited(DIRECT)
    assert DIRECT in edited(PROGRAM)


def test_an_ensemble_can_be_made_and_left() -> None:
    made = [one for one in edits_of(tree_of(DIRECT), False) if one.kind == "ensemble"]
    assert len(made) == 2
    for one in made:
        assert DIRECT in edited(one.source)


@pytest.mark.parametrize("kind", ["finish", "review"])
def test_a_step_at_the_end_can_be_left_out_again(kind: str) -> None:
    (made,) = [one for one in edits_of(tree_of(DIRECT), False) if one.kind == kind]
    back = edited(made.source)
    if kind == "review":
        back = {name: one for source in back for name, one in edited(source).items()}
    assert DIRECT in back


def test_a_program_is_tested_and_an_answer_is_formatted() -> None:
    code = 'found = CustomCodeGenerate(problem=problem, instruction="")\nreturn found.response\n'
    assert any("Test(" in one for one in edited(code, is_code=True))
    assert any("Format(" in one for one in edited(DIRECT))
    assert not any("Test(" in one for one in edited(DIRECT))


def test_edits_of_a_program_without_plain_steps_are_few_and_valid() -> None:
    source = "repeat 2\n  a = AnswerGenerate(input=problem)\n  b = a.answer\nend\nreturn problem\n"
    for one in edits_of(tree_of(source), False):
        tree_of(one.source)
