"""Typed edits of a workflow: each gives trees of one change, and every tree is checked."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from assay_reward.workflows.language.checker import check_tree
from assay_reward.workflows.language.source import WorkflowForm, print_workflow
from assay_reward.workflows.language.tree import (
    Assign,
    Branch,
    Expression,
    FieldOf,
    If,
    ListValue,
    Negation,
    OperatorCall,
    Parallel,
    Return,
    Variable,
    Workflow,
)
from assay_reward.workflows.search.rewriting import (
    call,
    calls,
    fresh,
    last_return,
    problem,
    renamed_field,
    said,
    with_statements,
)


@dataclass(frozen=True)
class TreeEdit:
    """A kind of edit, what was done, and the source of the new workflow."""

    kind: str
    done: str
    source: str


#: What solves a problem: the operator, the field of its answer, and the call.
_ADVICE: Final = "Solve the problem step by step. Give the final answer alone on the last line."
_SOLVERS: Final[dict[str, tuple[str, Callable[[], OperatorCall]]]] = {
    "AnswerGenerate": ("answer", lambda: call("AnswerGenerate", input=problem())),
    "Programmer": ("output", lambda: call("Programmer", problem=problem())),
    "Custom": ("response", lambda: call("Custom", input=problem(), instruction=said(_ADVICE))),
}
_CODERS: Final[dict[str, tuple[str, Callable[[], OperatorCall]]]] = {
    "CustomCodeGenerate": (
        "response",
        lambda: call(
            "CustomCodeGenerate",
            problem=problem(),
            instruction=said("Mind the corner cases."),
        ),
    ),
    "Programmer": ("code", lambda: call("Programmer", problem=problem())),
}
#: Steps that improve a solution: the operator, the parameter with the solution, the new field.
_FINISHERS: Final = {"Format": "solution", "Test": "solution", "Revise": "solution"}
#: Branches of an ensemble.
_SIZES: Final = (3, 5)


def edits_of(tree: Workflow, is_code: bool) -> list[TreeEdit]:
    """Return all valid workflows that are one edit away, each once, in a fixed order."""
    found: dict[str, TreeEdit] = {}
    own = print_workflow(tree, WorkflowForm.TEXT)
    for kind, make in _KINDS.items():
        for done, changed in make(tree, is_code):
            if not check_tree(changed).valid:
                continue
            source = print_workflow(changed, WorkflowForm.TEXT)
            if source != own and source not in found:
                found[source] = TreeEdit(kind, done, source)
    return list(found.values())


Made = Iterator[tuple[str, Workflow]]


def _solvers(is_code: bool) -> dict[str, tuple[str, Callable[[], OperatorCall]]]:
    return _CODERS if is_code else _SOLVERS


def _swap(tree: Workflow, is_code: bool) -> Made:
    """Replace a solver by another one."""
    solvers = _solvers(is_code)
    for place, step, found in calls(tree):
        if found.operator not in solvers:
            continue
        for name, (field, make) in solvers.items():
            if name != found.operator:
                changed = with_statements(tree, place, Assign(step.name, make()))
                yield (
                    f"{name} in place of {found.operator}",
                    renamed_field(changed, step.name, FieldOf(step.name, field)),
                )


def _ensemble(tree: Workflow, is_code: bool) -> Made:
    """Call a solver several times, and let the model choose."""
    solvers = _solvers(is_code)
    for place, step, found in calls(tree):
        if found.operator not in solvers:
            continue
        field = solvers[found.operator][0]
        for size in _SIZES:
            names = fresh(tree, "sample", size)
            listed = ListValue(tuple(FieldOf(name, field) for name in names))
            chosen = call("ScEnsemble", problem=problem(), solutions=listed)
            branches = Parallel(tuple(Branch(name, (), found) for name in names))
            changed = with_statements(tree, place, branches, Assign(step.name, chosen))
            yield (
                f"{size} samples of {found.operator}",
                renamed_field(changed, step.name, FieldOf(step.name, "response")),
            )


def _resize(tree: Workflow, is_code: bool) -> Made:
    """Change an ensemble back to its first branch."""
    for place, step in enumerate(tree.body[:-1]):
        following = tree.body[place + 1]
        match step, following:
            case Parallel(branches=branches), Assign(name=name, value=OperatorCall(operator=chose)):
                pass
            case _:
                continue
        first = branches[0]
        if chose not in ("ScEnsemble", "MdEnsemble") or first.body:
            continue
        value = first.result
        solvers = _solvers(is_code)
        if isinstance(value, OperatorCall) and value.operator in solvers:
            field = solvers[value.operator][0]
            body = (*tree.body[:place], Assign(name, value), *tree.body[place + 2 :])
            yield (
                f"one {value.operator} in place of {len(branches)}",
                renamed_field(Workflow(body), name, FieldOf(name, field)),
            )


def _finish(tree: Workflow, is_code: bool) -> Made:
    """Send the answer through one more step."""
    value = last_return(tree)
    if value is None:
        return
    operator = "Test" if is_code else "Format"
    name = fresh(tree, operator.lower())[0]
    step = Assign(name, call(operator, problem=problem(), solution=value))
    body = (*tree.body[:-1], step, Return(FieldOf(name, "solution")))
    yield f"{operator} at the end", Workflow(body)


def _review(tree: Workflow, is_code: bool) -> Made:
    """Review the answer, and revise it if the review says so."""
    value = last_return(tree)
    if value is None:
        return
    review, fixed = fresh(tree, "review")[0], fresh(tree, "fixed")[0]
    asked = call("Review", problem=problem(), solution=value)
    feedback = FieldOf(review, "feedback")
    again = call("Revise", problem=problem(), solution=value, feedback=feedback)
    revised = (Assign(fixed, again), Return(FieldOf(fixed, "solution")))
    steps = (
        Assign(review, asked),
        If(Negation(FieldOf(review, "review_result")), revised),
        Return(value),
    )
    yield "a review, and a revision after it", Workflow((*tree.body[:-1], *steps))


def _plan(tree: Workflow, is_code: bool) -> Made:
    """Give a Programmer step notes of a first thought."""
    for place, step, found in calls(tree):
        given = {one.name for one in found.arguments}
        if found.operator != "Programmer" or "analysis" in given:
            continue
        plan = fresh(tree, "plan")[0]
        analysis: Expression = FieldOf(plan, "thought")
        first = Assign(plan, call("AnswerGenerate", input=problem()))
        second = Assign(step.name, call("Programmer", problem=problem(), analysis=analysis))
        yield "notes for the Programmer", with_statements(tree, place, first, second)


def _drop(tree: Workflow, is_code: bool) -> Made:
    """Leave a step out that only improves a solution, or a condition that only revises."""
    for place, step, found in calls(tree):
        given = {one.name: one.value for one in found.arguments}
        before = given.get("solution")
        if found.operator in _FINISHERS and isinstance(before, FieldOf | Variable):
            yield (
                f"no {found.operator}",
                renamed_field(with_statements(tree, place), step.name, before),
            )
    for place, block in enumerate(tree.body):
        if isinstance(block, If):
            yield "no condition", with_statements(tree, place)
    for place, _, found in calls(tree):
        if found.operator == "Review":
            yield "no review", with_statements(tree, place)


_KINDS: Final[dict[str, Callable[[Workflow, bool], Made]]] = {
    "swap": _swap,
    "ensemble": _ensemble,
    "shrink": _resize,
    "finish": _finish,
    "review": _review,
    "plan": _plan,
    "drop": _drop,
}
