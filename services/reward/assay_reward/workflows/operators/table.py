"""Operators by name. To add an operator, add a file here, its signature and a row."""

from collections.abc import Awaitable, Callable

from assay_reward.workflows.language.signatures import OPERATORS as SIGNATURES
from assay_reward.workflows.operators.answer_format import answer_format
from assay_reward.workflows.operators.answer_generate import answer_generate
from assay_reward.workflows.operators.custom import custom
from assay_reward.workflows.operators.custom_code_generate import custom_code_generate
from assay_reward.workflows.operators.md_ensemble import md_ensemble
from assay_reward.workflows.operators.programmer import programmer
from assay_reward.workflows.operators.public_test import public_test
from assay_reward.workflows.operators.review import review
from assay_reward.workflows.operators.revise import revise
from assay_reward.workflows.operators.sc_ensemble import sc_ensemble
from assay_reward.workflows.operators.support.operator import (
    Arguments,
    Operator,
    OperatorContext,
    OperatorUse,
    Record,
)
from assay_reward.workflows.operators.tool import tool

_Run = Callable[[OperatorContext, Arguments], Awaitable[Record]]

_ASK = OperatorUse(calls=1)
#: Name, description, declared cost (a plain answer costs 1), use, and what carries it out.
_ROWS: tuple[tuple[str, str, float, OperatorUse, _Run], ...] = (
    ("Custom", "Follow an instruction on a text.", 1.0, _ASK, custom),
    ("AnswerGenerate", "Reason in steps, then answer.", 1.0, _ASK, answer_generate),
    ("CustomCodeGenerate", "Write a program for the task.", 1.5, _ASK, custom_code_generate),
    (
        "Programmer",
        "Compute the answer by a program that is run.",
        2.0,
        OperatorUse(calls=1, programs=1, retries=2),
        programmer,
    ),
    (
        "Test",
        "Test a program on the public tests, and correct it.",
        2.0,
        OperatorUse(programs=1, retries=3),
        public_test,
    ),
    ("Review", "Comment on a solution.", 1.0, _ASK, review),
    ("Revise", "Rewrite a solution after comments.", 1.0, _ASK, revise),
    ("Format", "Give the final answer alone.", 0.5, _ASK, answer_format),
    ("ScEnsemble", "Choose the solution on which most agree.", 1.0, _ASK, sc_ensemble),
    (
        "MdEnsemble",
        "Choose a solution by five votes in shuffled orders.",
        5.0,
        OperatorUse(calls=5),
        md_ensemble,
    ),
    ("Tool", "Run a tool in the sandbox.", 0.5, OperatorUse(programs=1), tool),
)

OPERATORS: dict[str, Operator] = {
    name: Operator(SIGNATURES[name], description, cost, use, run)
    for name, description, cost, use, run in _ROWS
}
