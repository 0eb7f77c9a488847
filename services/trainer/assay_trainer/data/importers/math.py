"""MATH (arXiv 2103.03874): the original rows, MATH-500's, and DeepScaleR's.

A row:  {"problem": "...", "solution": "... $\\\\boxed{4}$", "type": "Algebra", "level": "Level 1"}
With `answer`, the solution may be missing.
"""

from collections.abc import Iterator

from assay_shared.answers.extraction import last_boxed
from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row

_INSTRUCTION = "Work it out step by step, and put the final answer in \\boxed{}."


def boxed_example(
    name: str, dataset: str, row: Row, role: Role, answer: str, tags: dict[str, str]
) -> ImportedRow:
    """Return a task of a problem whose answer goes into a box."""
    problem, solution = row.text("problem"), row.maybe_text("solution").strip()
    last = f"The answer is $\\boxed{{{answer}}}$."
    # Behind the box, some solutions have remarks and the names of their writers.
    ends_in_box = (last_boxed(solution) or "").strip() == answer
    task = Task(
        id=name,
        dataset=dataset,
        role=role,
        prompt=f"{problem}\n\n{_INSTRUCTION}",
        rubric="math",
        gold=f"{solution}\n\n{last}" if ends_in_box else last,
        reference=answer,
        tags={"domain": "math"} | {name: text for name, text in tags.items() if text},
    )
    return ImportedRow(task, problem)


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    if "answer" in row.value:
        answer = row.number_or_text("answer").strip()
    else:
        found = last_boxed(row.text("solution"))
        if found is None or not found.strip():
            raise DatasetError("there is no \\boxed{} with an answer", field="solution")
        answer = found.strip()
    tags = {
        "family": row.maybe_text("type" if "type" in row else "subject"),
        "difficulty": str(row.value.get("level", row.value.get("difficulty", ""))),
    }
    own = row.value.get("unique_id")
    name = own if isinstance(own, str) else f"{place.split}/{place.number}"
    yield boxed_example(f"math/{name}", "math", row, place.role, answer, tags)


MATH = PublishedFormat(
    name="math",
    domain="math",
    licence="MIT",
    roles={"train": Role.TRAIN, "test": Role.TEST},
    rubric="math",
    verified=("DeepScaleR's rows",),
    unverified=("hendrycks/competition_math", "HuggingFaceH4/MATH-500"),
    read=_read,
)
