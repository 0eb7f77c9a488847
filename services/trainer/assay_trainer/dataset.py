"""Opening datasets: the generated set, JSONL, HumanEval's file; roles are enforced here.

A row of HumanEval's file, for the reader of `_human_eval_task`:
    {"task_id": "HumanEval/10", "prompt": "def is_palindrome(...", "entry_point": "make_palindrome",
     "canonical_solution": "    if not string: ...", "test": "def check(candidate): ..."}
"""

import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import AssertCase, PromptFormat, Role, Task
from assay_trainer.config import GeneratedSource, HumanEvalSource, JsonlSource, Source
from assay_trainer.generated import generate


class Purpose(StrEnum):
    """What a dataset is opened for."""

    TRAIN = "train"
    EVALUATE = "evaluate"


@dataclass(frozen=True)
class Demonstration:
    """An answer to learn from; `mistake` names what is wrong with it, if anything is."""

    task: Task
    answer: str
    mistake: str | None = None


@dataclass(frozen=True)
class Dataset:
    """Tasks and, where they are known, the wrong answers that demonstrations may show."""

    tasks: list[Task]
    mistakes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def demonstrations(self, per_task: int, mistake_rate: float, seed: int) -> list[Demonstration]:
        """`per_task` for each task with a gold answer, of which a share shows a mistake."""
        rng = random.Random(f"{seed}/demonstrations")
        found = []
        for task in self.tasks * per_task:
            if task.gold is not None:
                wrong = self.mistakes.get(task.id, {})
                kind = rng.choice(sorted(wrong)) if wrong and rng.random() < mistake_rate else None
                found.append(Demonstration(task, wrong[kind] if kind else task.gold, kind))
        return found


def open_dataset(source: Source, purpose: Purpose, data_folder: Path | None) -> Dataset:
    """The tasks of `source`.

    Raises:
        RoleError: a task that is not for training, opened for it.
        DatasetError: a row that cannot be used, with file, line and field.
    """
    dataset = _read(source, purpose, data_folder)
    if not dataset.tasks:
        raise DatasetError(f"{source.kind} has no tasks")
    if purpose is Purpose.TRAIN:
        for task in dataset.tasks:
            if task.role is not Role.TRAIN:
                raise RoleError(f"task {task.id} is for {task.role} only; it cannot be trained on")
    return dataset


def _read(source: Source, purpose: Purpose, data_folder: Path | None) -> Dataset:
    if isinstance(source, GeneratedSource):
        return _generated(source, Role.TRAIN if purpose is Purpose.TRAIN else Role.TEST)
    if isinstance(source, JsonlSource):
        return Dataset(list(_rows(source.path, _task)))
    return Dataset(list(_rows(human_eval_path(source, data_folder), _human_eval_task)))


def _generated(source: GeneratedSource, role: Role) -> Dataset:
    shares = {"code": source.code, "arithmetic": source.arithmetic, "lookup": source.lookup}
    generated = generate(source.num_tasks, source.seed, shares, role)
    return Dataset(
        [one.task for one in generated], {one.task.id: one.mistakes for one in generated}
    )


def human_eval_path(source: HumanEvalSource, data_folder: Path | None) -> Path:
    if source.path is not None:
        return source.path
    if data_folder is None:
        raise DatasetError(
            "where is HumanEval.jsonl.gz?", hint="give its path, or its folder in ASSAY_DATA"
        )
    return data_folder / "HumanEval.jsonl.gz"


def _rows(path: Path, parse: Callable[[object], Task]) -> Iterator[Task]:
    seen: dict[str, int] = {}
    for number, line in enumerate(_lines(path), start=1):
        where = f"{path}:{number}"
        try:
            task = parse(json.loads(line))
        except json.JSONDecodeError as error:
            raise DatasetError(f"{where}: not JSON: {error.msg}") from None
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or None
            raise DatasetError(f"{where}: {first['msg']}", field=name) from None
        except DatasetError as error:
            raise DatasetError(f"{where}: {error.message}", field=error.field) from None
        if task.id in seen:
            raise DatasetError(
                f"{where}: {task.id!r} stands in line {seen[task.id]} already", field="id"
            )
        seen[task.id] = number
        yield task


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file that are not empty; gzip is undone by its name."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            yield from (line for line in file if line.strip())
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}") from None
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None


def _task(row: object) -> Task:
    return Task.model_validate(row)


def _human_eval_task(row: object) -> Task:
    if not isinstance(row, dict):
        raise DatasetError(f"a row must be an object, not {type(row).__name__}")
    names = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
    for name in names:
        if not isinstance(row.get(name), str):
            raise DatasetError("a text is needed", field=name)
    task_id, prompt, entry_point, solution, test = (row[name] for name in names)
    return Task(
        id=task_id,
        dataset="humaneval",
        role=Role.TEST,
        prompt=prompt,
        prompt_format=PromptFormat.RAW,
        rubric="code.sparse",
        gold=solution,
        tests=(AssertCase(code=f"{test}\ncheck({entry_point})\n"),),
        code_prefix=prompt,
        tags={"domain": "code"},
    )
