"""Opening datasets of every kind of source; roles are enforced here.

A row of HumanEval's file, for the reader of `human_eval_task`:
    {"task_id": "HumanEval/10", "prompt": "def is_palindrome(...", "entry_point": "make_palindrome",
     "canonical_solution": "    if not string: ...", "test": "def check(candidate): ..."}
"""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from assay_shared.errors import DatasetError, RoleError
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.settings.run_file import did_you_mean
from assay_shared.text.half_characters import find_half_character
from assay_shared.types import Role, Task
from assay_trainer.config import GeneratedSource, Gsm8kSource, HumanEvalSource, JsonlSource, Source
from assay_trainer.data.governance.imported import refuse_kind, rows_to_open
from assay_trainer.data.governance.sources import refuse_deprecated
from assay_trainer.data.governance.test_only import refuse_test_only
from assay_trainer.data.gsm8k import gsm8k_task
from assay_trainer.data.hub_files import download_split
from assay_trainer.data.humaneval import human_eval_path, human_eval_task
from assay_trainer.data.synthetic import generate
from assay_trainer.data.tables import read_rows, row_parser
from assay_trainer.hub import resolve
from assay_trainer.table_source import HubSource, ImportedSource, RowMap, TableSource

#: The tasks of a folder, such as a cell of a benchmark.
_TASKS = "tasks.jsonl"
#: It stands in every event and every record about the task.
_MAX_ID_CHARACTERS = 1000
_MAX_SHOWN = 200
_REQUIRED = ("id", "dataset", "role", "prompt", "rubric")
_OTHER_FORMS = (
    "`kind: table` takes rows of other forms, with a `map` such as {prompt: '{question}', gold: "
    "'{answer}', rubric: NAME}, and '{messages.0.content}' of a chat; `assay data import messages` "
    "takes whole chats"
)


class DatasetPurpose(StrEnum):
    """Purpose of opening a dataset."""

    TRAIN = "train"
    EVALUATE = "evaluate"


@dataclass(frozen=True)
class Demonstration:
    """An answer to learn from; `mistake` names its mistake, if any."""

    task: Task
    answer: str
    mistake: str | None = None


@dataclass(frozen=True)
class Dataset:
    """Tasks and, if known, the wrong answers for demonstrations.

    `unusable` has the reason for each task whose row has a bad value, by its id.
    """

    tasks: list[Task]
    mistakes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unusable: Mapping[str, str] = field(default_factory=dict)

    def demonstrations(self, per_task: int, mistake_rate: float, seed: int) -> list[Demonstration]:
        """Return `per_task` demonstrations per task with a gold answer; a share has mistakes."""
        rng = random.Random(f"{seed}/demonstrations")
        found = []
        for task in self.tasks * per_task:
            if task.gold is not None:
                wrong = self.mistakes.get(task.id, {})
                kind = rng.choice(sorted(wrong)) if wrong and rng.random() < mistake_rate else None
                found.append(Demonstration(task, wrong[kind] if kind else task.gold, kind))
        return found


def named_source(name: str) -> Source:
    """Return a dataset by its name on the command line: a known name, a file or a folder."""
    if name == "humaneval":
        return HumanEvalSource(kind="humaneval")
    if name == "gsm8k":
        return Gsm8kSource(kind="gsm8k")
    if name == "gsm8k:train":
        return Gsm8kSource(kind="gsm8k", split="train")
    if Path(name).is_dir():
        return ImportedSource(kind="imported", path=Path(name))
    return JsonlSource(kind="jsonl", path=Path(name))


def open_dataset(
    source: Source,
    purpose: DatasetPurpose,
    data_folder: Path | None,
    *,
    takes_half_characters: bool = False,
) -> Dataset:
    """Return the tasks of `source`.

    Args:
        takes_half_characters: keep rows with a lone surrogate, or of a table with a bad value, for
            a caller able to set them aside; an id never has a lone surrogate.

    Raises:
        RoleError: a task for another purpose was opened for training.
        DatasetError: a row cannot be used; names file, line and field.
    """
    _refuse_deprecated(source, data_folder)
    dataset = _read(source, purpose, data_folder, takes_half_characters)
    if not dataset.tasks:
        named = getattr(source, "path", None) or getattr(source, "name", None)
        raise DatasetError(f"{named or source.kind} has no tasks")
    if purpose is DatasetPurpose.TRAIN:
        for task in dataset.tasks:
            if task.role is not Role.TRAIN:
                says_otherwise = isinstance(source, HubSource | TableSource)
                raise RoleError(
                    f"task {task.id} is for {task.role} only; it cannot be trained on",
                    hint="role: train in the source says otherwise" if says_otherwise else None,
                )
        refuse_test_only(((task, None) for task in dataset.tasks), data_folder)
    return dataset


def _refuse_deprecated(source: Source, data_folder: Path | None) -> None:
    names = [source.name] if isinstance(source, HubSource) else []
    files = [source.path] if isinstance(source, TableSource) else []
    if isinstance(source, JsonlSource):
        files = _task_files(source.path)
    refuse_deprecated(names, data_folder, files)


def _read(
    source: Source, purpose: DatasetPurpose, data_folder: Path | None, takes_half_characters: bool
) -> Dataset:
    if isinstance(source, GeneratedSource):
        return _generated(source, Role.TRAIN if purpose is DatasetPurpose.TRAIN else Role.TEST)
    if isinstance(source, JsonlSource):
        return _of_jsonl(source, takes_half_characters)
    if isinstance(source, ImportedSource):
        return _imported(source, purpose, data_folder)
    if isinstance(source, Gsm8kSource):
        return _gsm8k(source, purpose, data_folder)
    if isinstance(source, TableSource):
        name = source.path.name.partition(".")[0]
        return _tables([source.path], source.map, name, source.role, takes_half_characters)
    if isinstance(source, HubSource):
        files = download_split(source, resolve("dataset", source.name, source.revision))
        return _tables(files, source.map, source.name, source.permitted_use, takes_half_characters)
    return _of_file(
        human_eval_path(source, data_folder), human_eval_task, takes_half_characters=False
    )


def _of_jsonl(source: JsonlSource, takes_half_characters: bool) -> Dataset:
    parse = _checked(_whole_task, takes_half_characters)
    files = _task_files(source.path)
    tasks = [task for file in files for task in read_json_lines(file, parse, lambda one: one.id)]
    _refuse_twice(tasks if len(files) > 1 else [], source.path)
    wanted = [task for task in tasks if source.role in (None, task.role)]
    if source.rubric is not None:
        wanted = [task.model_copy(update={"rubric": source.rubric}) for task in wanted]
    return Dataset(wanted)


def _refuse_twice(tasks: Sequence[Task], folder: Path) -> None:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise DatasetError(f"two files have the task {task.id}", field=str(folder))
        seen.add(task.id)


def _task_files(path: Path) -> list[Path]:
    """Return the files of a JSONL source: the file itself, or those of a folder.

    Raises:
        DatasetError: the folder has none.
    """
    if not path.is_dir():
        return [path]
    found = sorted([*path.glob(_TASKS), *path.glob(f"*/{_TASKS}")])
    if not found:
        raise DatasetError(f"the folder {path} has no {_TASKS}, and no folder in it has one")
    return found


def _whole_task(row: object) -> Task:
    """Return a row as a task; a dataset's row must set fields optional in a score request."""
    given = row if isinstance(row, Mapping) else {}
    missing = [name for name in _REQUIRED if name not in given]
    hint = _OTHER_FORMS if len(missing) > 1 else None
    for name in given:
        if name not in Task.model_fields:
            shown = str(name)[:_MAX_SHOWN]
            hint = hint or did_you_mean(shown, Task.model_fields)
            raise DatasetError(f"a task has no field {shown!r}", field=shown, hint=hint)
    task = Task.model_validate(row)
    for name in missing:
        raise DatasetError(f"Field required: the row has no {name!r}", field=name, hint=hint)
    if len(task.id) > _MAX_ID_CHARACTERS:
        raise DatasetError(f"has at most {_MAX_ID_CHARACTERS} characters", field="id")
    return task


def _of_file(
    path: Path, parse: Callable[[object], Task], *, takes_half_characters: bool
) -> Dataset:
    parse = _checked(parse, takes_half_characters)
    return Dataset(list(read_json_lines(path, parse, lambda task: task.id)))


def _checked(
    parse: Callable[[object], Task], takes_half_characters: bool
) -> Callable[[object], Task]:
    """Return `parse` with a check of the row's texts, or of the task's id alone."""

    def checked(row: object) -> Task:
        task = parse(row)
        half = find_half_character({"id": task.id} if takes_half_characters else row)
        if half is not None:
            name = ".".join(map(str, half)).encode(errors="backslashreplace").decode()
            raise DatasetError("must be Unicode text without lone surrogates", field=name)
        return task

    return checked


def _tables(
    files: Sequence[Path], row_map: RowMap, name: str, role: Role, takes_unusable: bool
) -> Dataset:
    """Return the rows of files as tasks, numbered through all of them."""
    tasks: list[Task] = []
    numbers = itertools.count()
    reasons: dict[str, str] = {}
    for path in files:
        unusable: dict[str, str] | None = {} if takes_unusable else None
        first = len(tasks)
        parse = row_parser(row_map, name, role, numbers, unusable)
        tasks += read_rows(path, row_map, _checked(parse, takes_unusable))
        for row, task in enumerate(tasks[first:] if unusable else (), start=1):
            if unusable and task.id in unusable:
                reasons[task.id] = f"{path.name}, row {row}: {unusable[task.id]}"
    return Dataset(tasks, unusable=reasons)


def _imported(source: ImportedSource, purpose: DatasetPurpose, data_folder: Path | None) -> Dataset:
    to_train = purpose is DatasetPurpose.TRAIN
    manifest, path, roles = rows_to_open(
        source.path, source.role, to_train=to_train, data_folder=data_folder
    )
    refuse_kind(manifest, source.path, preferences=False)
    rows = read_json_lines(path, _whole_task, lambda task: task.id)
    return Dataset([task for task in rows if task.role in roles])


def _generated(source: GeneratedSource, role: Role) -> Dataset:
    shares = {"code": source.code, "arithmetic": source.arithmetic, "lookup": source.lookup}
    generated = generate(source.num_tasks, source.seed, shares, role)
    return Dataset(
        [one.task for one in generated], {one.task.id: one.mistakes for one in generated}
    )


def _gsm8k(source: Gsm8kSource, purpose: DatasetPurpose, data_folder: Path | None) -> Dataset:
    split = source.split or ("train" if purpose is DatasetPurpose.TRAIN else "test")
    folder = source.path or (data_folder and data_folder / "gsm8k")
    if folder is None:
        raise DatasetError(
            "where is GSM8K?", hint="give its folder, or the one above in ASSAY_DATA"
        )
    numbers = itertools.count()

    def parse(row: object) -> Task:
        return gsm8k_task(row, next(numbers), Role(split))

    return _of_file(folder / f"{split}.jsonl", parse, takes_half_characters=False)
