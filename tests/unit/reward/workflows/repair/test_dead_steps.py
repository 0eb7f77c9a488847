"""Steps that no path reaches are removed, and the removal is recorded."""

import pytest

from assay_reward.workflows.language.source import form_of
from assay_reward.workflows.repair.repair import repair_source

TEXT = """\
# A note.
if "a" in problem
  x = problem
  return x
else
  return "b"
end
y = Nonsense(input=problem)
return y
"""
PYTHON = """\
async def workflow(problem):
    for i in range(3):
        if "a" in problem:
            break
            z = problem
        else:
            return "b"
        w = problem
    return problem
"""
CASES = [
    (TEXT, 'if "a" in problem\n  x = problem\n  return x\nelse\n  return "b"\nend\n', [8]),
    (
        PYTHON,
        PYTHON.replace("            z = problem\n", "").replace("        w = problem\n", ""),
        [5, 8],
    ),
    ('return problem\nreturn "b"\n', "return problem\n", [2]),
]


@pytest.mark.parametrize(("source", "expected", "lines"), CASES)
def test_dead_steps_are_removed(source: str, expected: str, lines: list[int]) -> None:
    repaired = repair_source(source, form_of(source))
    assert repaired.source == expected
    assert repaired.checked.valid
    assert [(one.kind, one.position.line) for one in repaired.repairs] == [
        ("unreachable", line) for line in lines
    ]
    assert "removed, because no path reaches it" in str(repaired.repairs[0])


def test_places_of_other_repairs_are_those_of_the_source_as_given() -> None:
    source = (
        'if "a" in problem\n\n\n  return problem\n  return "dead"\nend\n\n'
        'if "b" in problem\n  x = custom(input=problem, instruction="s")\nend\nreturn x.response'
    )
    repaired = repair_source(source, form_of(source))
    assert repaired.checked.valid
    assert [(one.kind, one.position.line) for one in repaired.repairs] == [
        ("unreachable", 5),
        ("initialise", 8),
        ("operator", 9),
    ]
