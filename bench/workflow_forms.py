"""Workflows of mixed quality as demonstrations, and the names of those that a policy writes."""

from collections.abc import Mapping
from dataclasses import dataclass

_VOTE = """\
a = {operator}(input=problem)
b = {operator}(input=problem)
c = {operator}(input=problem)
vote = ScEnsemble(problem=problem, solutions=[a.answer, b.answer, c.answer])
return vote.response"""
_DRAFT_AND_REVIEW = """\
draft = AnswerGenerate(input=problem)
review = Review(problem=problem, solution=draft.answer)
"""
_CUSTOM = 'found = Custom(input=problem, instruction="Reply with the number alone.")'


@dataclass(frozen=True)
class WorkflowForm:
    """A workflow, and its share of the demonstrations as a weight."""

    text: str
    weight: int


#: The mixture of a policy that has seen much and knows little: what pays most is rare.
FORMS = {
    "program": WorkflowForm("found = Programmer(problem=problem)\nreturn found.output", 6),
    "direct": WorkflowForm("found = AnswerGenerate(input=problem)\nreturn found.answer", 16),
    "custom": WorkflowForm(f"{_CUSTOM}\nreturn found.response", 14),
    "vote of 3": WorkflowForm(_VOTE.format(operator="AnswerGenerate"), 10),
    "vote of 3 programs": WorkflowForm(
        _VOTE.format(operator="Programmer")
        .replace("input=", "problem=")
        .replace(".answer", ".output"),
        6,
    ),
    "program, formatted": WorkflowForm(
        "found = Programmer(problem=problem)\n"
        "final = Format(problem=problem, solution=found.output)\nreturn final.solution",
        5,
    ),
    "revised if a review says so": WorkflowForm(
        f"{_DRAFT_AND_REVIEW}if review.review_result\n  return draft.answer\nend\n"
        "fixed = Revise(problem=problem, solution=draft.answer, feedback=review.feedback)\n"
        "return fixed.solution",
        8,
    ),
    "revised": WorkflowForm(
        f"{_DRAFT_AND_REVIEW}"
        "fixed = Revise(problem=problem, solution=draft.answer, feedback=review.feedback)\n"
        "final = Format(problem=problem, solution=fixed.solution)\nreturn final.solution",
        6,
    ),
}

#: With a name in another case, which the environment repairs at a price.
REPAIRED = {
    "direct, misspelt": WorkflowForm(
        "found = answergenerate(input=problem)\nreturn found.answer", 6
    ),
    "program, misspelt": WorkflowForm(
        "found = programmer(problem=problem)\nreturn found.output", 3
    ),
}

#: Wrong in one place; the last one is valid, and stops for its own fault.
BROKEN = {
    "unknown name": WorkflowForm("found = AnswerGenerate(input=question)\nreturn found.answer", 6),
    "unknown operator": WorkflowForm("found = Solver(problem=problem)\nreturn found.output", 5),
    "unknown field": WorkflowForm("found = AnswerGenerate(input=problem)\nreturn found.output", 6),
    "unknown parameter": WorkflowForm("found = Programmer(input=problem)\nreturn found.output", 5),
    "no return": WorkflowForm("found = Programmer(problem=problem)\nanswer = found.output", 4),
    "no operator's answer": WorkflowForm(
        "found = AnswerGenerate(input=problem)\nreturn problem", 4
    ),
}

ALL_FORMS = FORMS | REPAIRED | BROKEN
_OPERATOR = "workflow_operator_"


def form_of(measures: Mapping[str, float]) -> str:
    """Return the name of a sample's workflow: the operators that it called, or how it failed."""
    if not measures.get("workflow_valid"):
        return "not valid"
    if measures.get("workflow_fault"):
        return "stopped for its fault"
    calls = {
        name.removeprefix(_OPERATOR): round(number)
        for name, number in measures.items()
        if name.startswith(_OPERATOR) and number
    }
    named = " + ".join(name if n == 1 else f"{n} {name}" for name, n in sorted(calls.items()))
    return f"{named}, repaired" if measures.get("workflow_repaired") else named
