"""Idioms of the Python form keep their meaning: Python itself runs both sources."""

import asyncio
from typing import Any

import pytest

from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.signatures import OPERATORS, ValueType
from assay_reward.workflows.language.source import WorkflowForm, check_source
from assay_reward.workflows.repair.repair import RepairedWorkflow, repair_source

CASES = [
    'x: dict = await Custom(input=problem, instruction="Solve")\ny: str\ny: str = x["response"]\n'
    "return y",
    'x = await Custom(problem, "Solve")\npass\nprint(x)\nreturn x["response"]',
    'x = await Custom(problem, instruction="S")\nreturn x.get("response", "none")',
    'x = await Custom(input=problem, instruction="S")\nreturn x.get("errors", "none")',
    "x = await Custom(input=problem, instruction=\"S\")\nreturn f\"{x.get('errors', 'none')} a\"",
    'return (await Custom(input=(await Custom(problem, "A"))["response"], instruction="B"))'
    '["response"]',
    'x = await Custom(problem, "a")\nr = await Review(problem=problem, solution="b")\n'
    'return x["response"] if r["review_result"] else r["feedback"]',
    'x = await Custom(problem, "a")\ny = "b" if x["response"] and not x["response"] else "c"\n'
    "return y",
    'a = ""\nfor i in range(3):\n    x = await Custom(problem, f"{i}")\n    '
    'if "1" in x["response"]:\n        a += "skip"\n        continue\n    elif a:\n'
    '        a += x["response"]\n    else:\n        a = "first"\nreturn a',
    'x = await Custom(problem, "a")\nif x["response"]:\n    pass\nelse:\n    x = '
    'await Custom(problem, "b")\nreturn x["response"]',
    'if (await Review(problem, "s"))["review_result"]:\n    return "right"\n'
    'elif (await Review(problem, "t"))["review_result"]:\n    return "second"\nreturn "wrong"',
    't = await Test(problem, "s", entry_point="f")\nreturn t["solution"]',
]


def operator(name: str) -> Any:
    """Return a stand-in whose results tell the operator and its arguments."""
    signature = OPERATORS[name]

    async def run(*values: object, **named: object) -> dict[str, object]:
        named.pop("entry_point", None)
        given = dict(zip(signature.parameters, values, strict=False)) | named
        said = f"{name}{sorted(given.items())}"
        return {
            field: kind is not ValueType.BOOLEAN or len(said) % 2 == 0
            if kind is ValueType.BOOLEAN
            else said
            for field, kind in signature.fields.items()
        }

    return run


def answer_of(source: str) -> object:
    names: dict[str, Any] = {name: operator(name) for name in OPERATORS}
    exec(source, names)
    return asyncio.run(names["workflow"]("the problem"))


def repaired(source: str) -> RepairedWorkflow:
    return repair_source(source, WorkflowForm.PYTHON)


@pytest.mark.parametrize("body", CASES)
def test_a_repaired_idiom_means_the_same(body: str) -> None:
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    source = f"async def workflow(problem):\n{indented}"
    found = repaired(source)
    assert found.checked.problems == ()
    assert {one.kind for one in found.repairs} == {"idiom"}
    assert check_source(found.source, WorkflowForm.PYTHON).valid
    assert answer_of(found.source) == answer_of(source)


AFLOW = '''\
from typing import Literal
import workspace.template.operator as operator

SOLVE_PROMPT = """Solve it.
Carefully."""

class Workflow:
    def __init__(self, name: str, llm_config, dataset) -> None:
        self.llm = create_llm_instance(llm_config)
        self.custom = operator.Custom(self.llm)
        self.review = operator.Format(self.llm)

    async def __call__(self, problem: str, entry_point: str):
        """
        Implementation of the graph
        """
        solution = await self.custom(input=problem, instruction=prompt_custom.SOLVE_PROMPT)
        short = await self.review(problem=problem, solution=solution['response'])
        return short['solution'], self.llm.get_usage_summary()["total_cost"]
'''


def test_the_class_of_aflow_is_read() -> None:
    found = repaired(AFLOW)
    assert found.checked.problems == ()
    assert answer_of(found.source) == answer_of(
        "async def workflow(problem):\n"
        '    solution = await Custom(problem, "Solve it.\\nCarefully.")\n'
        '    return (await Format(problem, solution["response"]))["solution"]\n'
    )
    assert (found.repairs[0].position.line, found.repairs[-1].position.line) == (1, 19)


LEFT = [
    (AFLOW.replace("SOLVE_PROMPT =", "OTHER ="), "there is no prompt_custom"),
    (
        AFLOW.replace("    async def __call__", "    def other(self): pass\n\n    def __call__"),
        "class",
    ),
    ("async def workflow(problem):\n    return problem, problem\n", "a tuple"),
    (
        "async def workflow(problem):\n"
        '    if problem == "a" and (await Review(problem, "s"))["review_result"]:\n'
        '        return "a"\n    return "b"\n',
        "not a name or a field",
    ),
]


@pytest.mark.parametrize(("source", "problem"), LEFT)
def test_what_has_no_single_meaning_stays_an_error(source: str, problem: str) -> None:
    try:
        problems = repaired(source).checked.problems
    except InvalidWorkflow as error:
        problems = error.problems
    assert problem in "\n".join(map(str, problems))


def test_a_source_with_too_many_idioms_is_left() -> None:
    steps = "    x: str = problem\n"
    source = "async def workflow(problem):\n{}    return x\n"
    assert len(repaired(source.format(steps * 64)).repairs) == 64
    with pytest.raises(InvalidWorkflow, match="this AnnAssign is not part of the language"):
        repaired(source.format(steps * 65))


ALIASED = """from typing import Literal
import scripts.operator as operator

DatasetType = Literal["GSM8K", "MATH"]

class Workflow:
    def __init__(self, name, dataset):
        self.custom = operator.Custom(self.llm)

    async def __call__(self, problem):
        solution = await self.custom(input=problem, instruction="Solve it.")
        return solution["response"]
"""


def test_an_alias_of_a_type_is_removed_and_other_steps_are_named_by_their_line() -> None:
    found = repair_source(ALIASED, WorkflowForm.PYTHON)
    assert found.checked.problems == ()
    assert any("DatasetType" in one.before for one in found.repairs)
    with pytest.raises(InvalidWorkflow) as raised:
        repair_source(ALIASED.replace('Literal["GSM8K", "MATH"]', "print(3)"), WorkflowForm.PYTHON)
    assert [one.position.line for one in raised.value.problems] == [4]
