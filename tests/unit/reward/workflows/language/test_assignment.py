"""Definite assignment against a reference interpreter that runs every path."""

import os
import random
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from assay_reward.workflows.language.assignment import flow_of
from assay_reward.workflows.language.checker import check_tree
from assay_reward.workflows.language.problems import ProblemKind
from assay_reward.workflows.language.source import WorkflowForm, print_workflow, read_workflow
from assay_reward.workflows.language.text_form.parser import parse_text
from assay_reward.workflows.repair.repair import repair_source
from tests.support.workflow_paths import Run, TooManyPaths, all_runs, positions
from tests.support.workflow_programs import ProgramWriter

NIGHTLY = "ASSAY_NIGHTLY" in os.environ
#: Some are left out, because they have too many paths.
NUM_PROGRAMS = 5_100 if NIGHTLY else 240
MAX_PATHS = 500


def check_program(seed: int, form: WorkflowForm, tally: Counter[str]) -> None:
    """Compare the analysis of one program with its runs, before and after repair."""
    made = ProgramWriter(random.Random(seed)).workflow()
    source = print_workflow(made, form)
    tree, _ = read_workflow(source, form)
    try:
        runs = all_runs(tree, MAX_PATHS)
    except TooManyPaths:
        tally["left out: too many paths"] += 1
        return
    flow = flow_of(tree)
    flagged = {(read.name, read.position) for read in flow.unset}
    failing = set(positions(runs))
    assert failing <= flagged, f"missed in:\n{source}"
    tally["programs"] += 1
    tally["runs"] += len(runs)
    tally["programs with an unset read"] += bool(failing)
    tally["programs flagged"] += bool(flagged)
    tally["programs flagged, no run fails"] += bool(flagged and not failing)
    problems = check_tree(tree).problems
    typed_well = all(one.kind in (ProblemKind.UNSET, ProblemKind.NAME) for one in problems)
    assert not (typed_well and any(run.wrong_kind for run in runs)), f"wrong kind in:\n{source}"
    check_repair(source, form, runs, tally)


def check_repair(source: str, form: WorkflowForm, runs: list[Run], tally: Counter[str]) -> None:
    """Check that a repair changes no run that ended well, and leaves no unset read unreported."""
    repaired = repair_source(source, form)
    assert bool(repaired.diff()) == bool(repaired.repairs)
    tally["programs repaired"] += bool(repaired.repairs)
    tally["programs valid after repair"] += bool(repaired.repairs) and repaired.checked.valid
    try:
        again = all_runs(repaired.checked.tree, 20 * MAX_PATHS)
    except TooManyPaths:
        return
    left = {(read.name, read.position) for read in flow_of(repaired.checked.tree).unset}
    assert set(positions(again)) <= left, source
    if repaired.checked.valid:
        assert not any(run.unset or run.wrong_kind for run in again), source
    results = {run.outcomes: run.result for run in again}
    for run in runs:
        if run.result is not None:
            assert results[run.outcomes] == run.result, f"{source}\n{repaired.source}"


@pytest.mark.parametrize("form", WorkflowForm)
def test_no_unset_read_of_any_run_is_missed(
    form: WorkflowForm, record_property: Callable[[str, object], None]
) -> None:
    tally: Counter[str] = Counter()
    for seed in range(NUM_PROGRAMS // 2):
        check_program(seed + (form is WorkflowForm.PYTHON) * 1_000_000, form, tally)
    sys.stderr.write(f"{form}: {dict(tally)}\n")
    for name, number in tally.items():
        record_property(name, number)
    assert tally["programs"] > 0.7 * NUM_PROGRAMS / 2
    assert tally["programs with an unset read"] > 0.2 * tally["programs"]
    assert tally["programs valid after repair"] > 0.1 * tally["programs"]


UNSET = [
    ('if problem == "a"\n  x = "b"\nend\nreturn x', "x may be unset here"),
    ('repeat 2 while problem == "a"\n  x = "b"\nend\nreturn x', "x may be unset here"),
    (
        'repeat 2\n  if problem == "a"\n    break\n  end\n  x = "b"\nend\nreturn "{x}"',
        "may be unset",
    ),
    ('parallel\n  a = "b"\n  c = "{a}"\nend\nreturn c', "a is the result of a branch"),
    ('x = "{y}"\ny = "b"\nreturn x', "y is read before it is set"),
    ("return drafts", "there is no drafts"),
    ('parallel\n  branch a\n    x = "b"\n    give x\n  end\n  c = "d"\nend\nreturn x', "keeps"),
    ('answers += "a"\nreturn problem', "answers is read before it is set"),
]


@pytest.mark.parametrize(("source", "expected"), UNSET)
def test_an_unset_read_is_explained(source: str, expected: str) -> None:
    found = check_tree(parse_text(source)).problems
    assert len(found) == 1
    assert expected in str(found[0])


SET = [
    'if problem == "a"\n  x = "b"\nelse\n  x = "c"\nend\nreturn x',
    'if problem == "a"\n  return "b"\nelse\n  x = "c"\nend\nreturn x',
    'repeat 2\n  x = "b"\nend\nreturn x',
    'repeat 2 as i while problem == "a"\n  x = "b"\nend\nreturn "{i}"',
    'parallel\n  a = "b"\n  c = problem\nend\nreturn "{a}{c}"',
]


@pytest.mark.parametrize("source", SET)
def test_what_every_path_sets_is_set(source: str) -> None:
    assert check_tree(parse_text(source)).valid


FLOW = [
    ("return problem\nx = problem", "line 2, column 1: no path reaches this step"),
    ("x = problem", "line 1, column 1: the workflow may end without a return"),
    ('if problem == "a"\n  return problem\nend', "the workflow may end without a return"),
    ("break\nreturn problem", "break outside of a loop"),
    ("repeat 2\n  return problem\nend\nreturn problem", "line 4, column 1: no path reaches"),
    (
        "x = problem\nparallel\n  branch a\n    x = problem\n    give x\n  end\n  b = x\nend\n"
        "return x",
        "x belongs to the steps around this branch",
    ),
    (
        "parallel\n  branch a\n    return problem\n    give problem\n  end\n  b = problem\nend\n"
        "return b",
        "a branch cannot return from the workflow",
    ),
]


@pytest.mark.parametrize(("source", "expected"), FLOW)
def test_steps_without_effect_and_missing_returns_are_found(source: str, expected: str) -> None:
    assert expected in "\n".join(map(str, check_tree(parse_text(source)).problems))
