"""The data of a new run: its two sources in the run file, from files or a dataset of a hub."""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import constants

from assay_shared.errors import DatasetError, NotFound, Unreachable
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.settings.run_file import from_home
from assay_shared.types import Role
from assay_trainer.data.hub_files import split_files
from assay_trainer.data.tables import JSON_LINES, read_rows, value_of
from assay_trainer.hub import download, resolve
from assay_trainer.start.columns import TaskColumns, find_columns, first_rows, is_task, row_text
from assay_trainer.start.row_values import checked_row, checked_task
from assay_trainer.start.rubric_kinds import KINDS, TaskKind, kind_of
from assay_trainer.table_source import Extractor, HubFiles, RowMap, check_repository_name, in_braces

#: A tenth of the prompts is held out, and 200 at most.
_HELD_OUT_SHARE, _MOST_HELD_OUT = 10, 200
#: Tasks of a file in Assay's own form that are checked.
_MOST_TASKS = 100_000


@dataclass(frozen=True)
class DataOptions:
    """The options about data, as they were given."""

    data: str
    held_out: Path | None = None
    rubric: str | None = None
    prompt_column: str | None = None
    answer_column: str | None = None
    config: str | None = None
    split: str = "train"
    held_out_split: str = "test"


@dataclass(frozen=True)
class TaskData:
    """The sources of training and held-out tasks, as the run file has them.

    `files` are the lines of files to write, by their names.
    """

    train: dict[str, Any]
    held_out: dict[str, Any]
    rubric: str
    max_tokens: int
    told: str
    files: dict[str, list[str]]


def task_data(options: DataOptions, folder: Path) -> TaskData:
    """Return the data of a run whose files may be written to `folder`.

    Raises:
        DatasetError: a file or dataset cannot be used; names the option and the columns.
        NotFound: there is neither such a file nor such a dataset.
        ConfigError: a path begins with a home folder that is not there.
    """
    path = from_home(Path(options.data), "--data")
    if path.is_file():
        rows = first_rows(path)
        if path.name.endswith(JSON_LINES) and is_task(rows[0]):
            return _own_tasks(path, options)
        return _table(path, rows, options, folder)
    if path.exists():
        raise DatasetError(f"{path} is not a file", field="--data")
    try:
        check_repository_name(options.data)
    except ValueError as error:
        message = f"there is no file {options.data!r:.200}, and a hub's name {error}"
        raise NotFound(message, field="--data") from None
    if path.name.endswith((".jsonl", ".csv", ".parquet", ".gz")):
        raise NotFound(f"there is no file {path}", field="--data")
    return _hub(options)


def _own_tasks(path: Path, options: DataOptions) -> TaskData:
    """Return the sources of files of Assay's own tasks, with their own rubrics."""
    seen = list(itertools.islice(read_json_lines(path, checked_task), _MOST_TASKS))
    roles = {one.role.value for one in seen}
    own = {one.rubric for one in seen}
    rubric = options.rubric or ", ".join(sorted(own)[:5])
    held_out = path if options.held_out is None else from_home(options.held_out, "--held-out")
    if options.held_out is not None:
        for _ in itertools.islice(read_json_lines(held_out, checked_task), _MOST_TASKS):
            pass
    if options.held_out is None and roles <= {Role.TRAIN.value}:
        raise DatasetError(
            f"{path} has no task with the role test or validation to measure on",
            field="--held-out",
            hint="name a second file, or give some tasks that role",
        )
    both: list[dict[str, Any]] = [
        {"kind": "jsonl", "path": str(one.resolve())} for one in (path, held_out)
    ]
    if options.held_out is None:
        other = Role.TEST if Role.TEST.value in roles else Role.VALIDATION
        both[0]["role"], both[1]["role"] = Role.TRAIN.value, other.value
    if options.rubric is not None:
        both = [one | {"rubric": options.rubric} for one in both]
    most = max(kind_of(one).max_tokens for one in own)
    return TaskData(both[0], both[1], rubric, most, f"tasks of {path.name}", {})


def _table(path: Path, rows: list[dict[str, Any]], options: DataOptions, folder: Path) -> TaskData:
    columns = find_columns(rows, str(path), options.prompt_column, options.answer_column)
    kind = _kind(options.rubric, columns)
    mapped = row_map(columns, kind)
    if options.held_out is not None:
        held = from_home(options.held_out, "--held-out")
        other = first_rows(held)
        find_columns(other, str(held), columns.prompt, columns.answer)
        numbers = [sum(1 for _ in _filled_rows(one, columns)) for one in (path, held)]
        files, places = {}, [path, held]
        told = f"{path.name}: {numbers[0]} rows, measured on {numbers[1]} of {held.name}"
    else:
        files = _split(path, columns)
        places = [folder / "data" / name for name in files]
        counts = [len(lines) for lines in files.values()]
        told = f"{path.name}: {counts[0]} rows to train on, {counts[1]} held out"
    train, held_out = (
        {"kind": "table", "path": str(place.resolve()), "role": role, "map": mapped}
        for place, role in zip(places, ("train", "test"), strict=True)
    )
    told = f"{told}; {columns.told}"
    return TaskData(train, held_out, kind.rubric, kind.max_tokens, told, files)


def _split(path: Path, columns: TaskColumns) -> dict[str, list[str]]:
    """Return the lines to train on and those held out; equal prompts are on one side."""
    lines: dict[bytes, list[str]] = {}
    for row in _filled_rows(path, columns):
        shown = " ".join(str(value_of(row, columns.prompt)).lower().split())
        digest = hashlib.sha256(shown.encode(errors="replace")).digest()
        lines.setdefault(digest, []).append(row_text(row))
    num_held_out = min(len(lines) // _HELD_OUT_SHARE, _MOST_HELD_OUT)
    chosen = set(sorted(lines)[:num_held_out])
    train = [line for digest, some in lines.items() if digest not in chosen for line in some]
    held_out = [line for digest, some in lines.items() if digest in chosen for line in some]
    if not held_out:
        raise _too_few(path, columns, len(train), len(lines))
    return {"train.jsonl": train, "held_out.jsonl": held_out}


def _too_few(path: Path, columns: TaskColumns, num_rows: int, num_prompts: int) -> DatasetError:
    if num_rows < _HELD_OUT_SHARE:
        told, hint = f"{num_rows} rows", ""
    else:
        number = "all are equal" if num_prompts == 1 else f"{num_prompts} are different"
        told = f"{num_rows} rows, but of the prompts in {columns.prompt}, {number}"
        hint = ", or another column by --prompt-column"
    return DatasetError(
        f"{path} has {told}: {_HELD_OUT_SHARE} different prompts are needed to hold a tenth out",
        field="--held-out",
        hint=f"name a second file to measure on{hint}",
    )


def _filled_rows(path: Path, columns: TaskColumns) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file.

    Raises:
        DatasetError: a prompt or an answer cannot be used; names file, row and column.
    """

    prompt, answer = in_braces(columns.prompt), in_braces(columns.answer)
    wanted = RowMap(prompt=prompt, rubric="r", gold=answer)
    yield from read_rows(path, wanted, lambda row: checked_row(row, columns))


def _hub(options: DataOptions) -> TaskData:
    if options.held_out is not None:
        raise DatasetError(
            "goes with a file; a hub's dataset has --held-out-split", field="--held-out"
        )
    columns = _hub_columns(options)
    kind = _kind(options.rubric, columns)
    base: dict[str, Any] = {"kind": "hub", "name": options.data}
    if options.config is not None:
        base["config"] = options.config
    train, held_out = (
        base | {"split": split, "role": role, "map": row_map(columns, kind)}
        for split, role in ((options.split, "train"), (options.held_out_split, "test"))
    )
    splits = f"split {options.split}, measured on {options.held_out_split}"
    told = f"{options.data}, {splits}; {columns.told}"
    return TaskData(train, held_out, kind.rubric, kind.max_tokens, told, {})


def _hub_columns(options: DataOptions) -> TaskColumns:
    """Return the columns by the held-out split's first file; as named, if no hub answers."""
    source = HubFiles.model_validate(
        {
            "kind": "hub",
            "name": options.data,
            "config": options.config,
            "split": options.held_out_split,
        }
    )
    try:
        repository = resolve("dataset", options.data, None)
        first = next(iter(split_files(source, repository)))
        rows = first_rows(download(repository, [first]) / first)
    except (Unreachable, NotFound) as error:
        if isinstance(error, NotFound) and not constants.is_offline_mode():
            raise
        if options.prompt_column and options.answer_column:
            return TaskColumns(options.prompt_column, options.answer_column, ())
        raise Unreachable(
            f"{error.message}, so its columns are not known",
            service="hub",
            hint="--prompt-column and --answer-column name them",
        ) from None
    return find_columns(rows, options.data, options.prompt_column, options.answer_column)


def _kind(rubric: str | None, columns: TaskColumns) -> TaskKind:
    if rubric is not None:
        return kind_of(rubric)
    if columns.choices:
        named = ", ".join(columns.choices)
        raise DatasetError(
            f"looks like multiple choice: the prompt would lack the choices in {named}",
            field="--data",
            hint="`assay data import mmlu FILE --split auxiliary_train --output tasks` takes rows "
            "of question, subject, choices and answer (a number from 0); a run file's map can "
            "name {choices:lettered} and {answer:letter} (docs/trainer_data.md); --rubric trains "
            "without the choices",
        )
    is_math = columns.has_hashes or columns.has_boxes or columns.are_numbers
    return KINDS["math" if is_math else "qa"]


def row_map(columns: TaskColumns, kind: TaskKind) -> dict[str, str]:
    """Return the map from columns to a task: prompt, gold, reference and rubric."""
    ask = in_braces(columns.prompt) + (f"\n\n{kind.ask}" if kind.ask else "")
    column = columns.answer
    gold, reference = kind.gold.replace("{answer}", in_braces(column)), in_braces(column)
    if columns.has_hashes:
        gold = in_braces(column, Extractor.NO_CALCULATOR)
        reference = in_braces(column, Extractor.AFTER_HASHES)
    elif columns.has_boxes:
        gold, reference = in_braces(column), in_braces(column, Extractor.BOXED)
    return {"prompt": ask, "gold": gold, "reference": reference, "rubric": kind.rubric}


def files_of(data: TaskData) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file to write."""
    for name, lines in data.files.items():
        yield name, "\n".join(lines) + "\n"
