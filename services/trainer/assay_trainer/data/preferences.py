"""Preferences to learn from: a prompt with a better and a worse answer.

A row:  {"prompt": "Write add(a, b).", "chosen": "def add(a, b): ...", "rejected": "I cannot."}
Each of the three may also be a list of messages.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from assay_shared.errors import DatasetError, RoleError
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.settings.validation import message_in_row
from assay_shared.text.half_characters import find_half_character
from assay_shared.types import Message, PromptFormat, Role, Task
from assay_trainer.data.governance.imported import refuse_kind, rows_to_open
from assay_trainer.data.governance.sources import refuse_deprecated
from assay_trainer.data.governance.test_only import refuse_test_only
from assay_trainer.data.hub_files import download_split
from assay_trainer.data.tables import filled, read_rows, value_of
from assay_trainer.hub import resolve
from assay_trainer.table_source import (
    Extractor,
    ImportedSource,
    PreferenceHub,
    PreferenceMap,
    PreferenceSource,
    template_parts,
)

_MESSAGES = TypeAdapter(tuple[Message, ...])
_Parts = Sequence[tuple[str, str | None, Extractor | None]]


@dataclass(frozen=True)
class Preference:
    """Two answers to the prompt of a task, the first one better."""

    task: Task
    chosen: str
    rejected: str


def open_preferences(source: PreferenceSource, data_folder: Path | None = None) -> list[Preference]:
    """Return the preferences of `source`, in their order.

    Raises:
        RoleError: the split is not for training, or a prompt is for tests only.
        DatasetError: a row cannot be used; names file, line and field. Or there are no rows.
    """
    found = _read(source, data_folder)
    refuse_test_only(((one.task, one.rejected) for one in found), data_folder)
    return found


def _read(source: PreferenceSource, data_folder: Path | None) -> list[Preference]:
    if isinstance(source, ImportedSource):
        return _imported(source, data_folder)
    if isinstance(source, PreferenceHub):
        refuse_deprecated([source.name], data_folder)
        if source.permitted_use is not Role.TRAIN:
            raise RoleError(
                f"split {source.split} is for {source.permitted_use} only; it cannot be trained on",
                hint="role: train in the source says otherwise",
            )
        files = download_split(source, resolve("dataset", source.name, source.revision))
        name = source.name
    else:
        refuse_deprecated([], data_folder, [source.path])
        files, name = [source.path], source.path.name.partition(".")[0]
    parse = _parser(source.map, name, itertools.count())
    found: list[Preference] = []
    for path in files:
        found += read_rows(path, source.map, lambda row: _formatted(parse(row), row))
    if not found:
        raise DatasetError(f"{name} has no preferences", field="dpo.data")
    return found


def _imported(source: ImportedSource, data_folder: Path | None) -> list[Preference]:
    manifest, path, roles = rows_to_open(
        source.path, source.role, to_train=True, data_folder=data_folder
    )
    refuse_kind(manifest, source.path, preferences=True)
    parse = _parser(PreferenceMap(), source.path.name, itertools.count())

    def of_role(row: object) -> Preference | None:
        is_wanted = isinstance(row, Mapping) and row.get("role") in roles
        return _formatted(parse(row), row) if is_wanted else None

    return [one for one in read_json_lines(path, of_role) if one is not None]


def _formatted(found: Preference, row: object) -> Preference:
    """Return the preference with the prompt's format, if the row has one.

    Raises:
        DatasetError: there is no such format, or a raw prompt is a conversation.
    """
    given = row.get("prompt_format") if isinstance(row, Mapping) else None
    if given not in (None, *PromptFormat):
        raise DatasetError(
            f"{given!r:.40} is none of {', '.join(PromptFormat)}", field="prompt_format"
        )
    if given != PromptFormat.RAW:
        return found
    if found.task.history:
        raise DatasetError("a raw prompt is one text, not messages", field="prompt")
    task = found.task.model_copy(update={"prompt_format": PromptFormat.RAW})
    return replace(found, task=task)


def _parser(
    row_map: PreferenceMap, name: str, numbers: Iterator[int]
) -> Callable[[object], Preference]:
    """Return a function from rows to preferences; it raises DatasetError with the field."""
    templates = {field: list(template_parts(text)) for field, text in row_map.templates.items()}

    def parse(row: object) -> Preference:
        if not isinstance(row, Mapping):
            raise DatasetError(f"a row must be an object, not {type(row).__name__}")
        history, prompt = _prompt(row, templates["prompt"])
        before = (*history, Message(role="user", content=prompt))
        texts = {
            field: _answer(row, templates[field], field, before) for field in ("chosen", "rejected")
        }
        for field, text in {"prompt": prompt, **texts}.items():
            if not text.strip():
                raise DatasetError("must not be empty", field=field)
        said = [{"prompt": one.content} for one in before]
        for half in filter(None, map(find_half_character, [*said, texts])):
            message = "must be Unicode text without lone surrogates"
            raise DatasetError(message, field=str(half[0]))
        task = Task(
            id=f"{name}/{next(numbers)}",
            dataset=name,
            role=Role.TRAIN,
            history=history,
            prompt=prompt,
            gold=texts["chosen"],
        )
        return Preference(task, **texts)

    return parse


def _prompt(row: Mapping[str, object], parts: _Parts) -> tuple[tuple[Message, ...], str]:
    """Return the messages before the last message of the user, and its text."""
    messages = _messages(row, parts, "prompt")
    if messages is None:
        return (), filled(parts, row)
    if not messages or messages[-1].role != "user":
        raise DatasetError("the last message of a chat must be the user's", field="prompt")
    return messages[:-1], messages[-1].content


def _answer(
    row: Mapping[str, object], parts: _Parts, field: str, before: tuple[Message, ...]
) -> str:
    """Return the text of an answer; of messages, the last one, which follow the prompt if any."""
    messages = _messages(row, parts, field)
    if messages is None:
        return filled(parts, row)
    if not messages or messages[-1].role != "assistant":
        raise DatasetError("the last message of an answer must be the assistant's", field=field)
    if messages[:-1] not in ((), before):
        raise DatasetError("the messages before the last one must be the prompt's", field=field)
    return messages[-1].content


def _messages(row: Mapping[str, object], parts: _Parts, field: str) -> tuple[Message, ...] | None:
    """Return the messages in a column; None if the template has texts, or the column no list."""
    literal, column, extractor = parts[0]
    if len(parts) > 1 or literal or column is None or extractor is not None:
        return None
    value = value_of(row, column)
    if value is None or isinstance(value, str):
        return None
    if not isinstance(value, list):
        kind = type(value).__name__
        raise DatasetError(f"must be a text or a list of messages, not {kind}", field=field)
    try:
        return _MESSAGES.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (field, *first["loc"])))
        raise DatasetError(message_in_row(first), field=place) from None
