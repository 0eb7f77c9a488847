"""HumanEval and HumanEval+: problems with the rest of a function as the answer."""

from pathlib import Path

from pydantic import BaseModel, JsonValue

from assay_shared.errors import DatasetError
from assay_shared.types import AssertCase, PromptFormat, Role, Task
from assay_trainer.config import HumanEvalSource

#: HumanEval+ computes each expected value next to the answer, on large inputs: one canonical
#: solution takes 7 s of processor time.
_PLUS = "def ref_func("
_PLUS_LIMITS: dict[str, JsonValue] = {"cpu_time_s": 20.0, "wall_time_s": 60.0}


def human_eval_path(source: HumanEvalSource, data_folder: Path | None) -> Path:
    if source.path is not None:
        return source.path
    if data_folder is None:
        raise DatasetError(
            "where is HumanEval.jsonl.gz?", hint="give its path, or its folder in ASSAY_DATA"
        )
    return data_folder / "HumanEval.jsonl.gz"


class _HumanEvalRow(BaseModel):
    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str


def human_eval_task(line: object) -> Task:
    """Return a row of HumanEval as a task, for tests only."""
    row = _HumanEvalRow.model_validate(line)
    return Task(
        id=row.task_id,
        dataset="humaneval",
        role=Role.TEST,
        prompt=row.prompt,
        prompt_format=PromptFormat.RAW,
        rubric="code.sparse",
        gold=row.canonical_solution,
        tests=(AssertCase(code=f"{row.test}\ncheck({row.entry_point})\n"),),
        code_prefix=row.prompt,
        checks={"limits": _PLUS_LIMITS} if _PLUS in row.test else {},
        tags={"domain": "code"},
    )
