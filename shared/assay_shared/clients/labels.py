"""Converts labels (ground truths of other trainers' datasets) to tasks."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from assay_shared.errors import InvalidInput
from assay_shared.settings.validation import validated
from assay_shared.types import Role, Task

Label = str | int | float | Mapping[str, Any] | None
#: Task fields that a label may set; the trainer sets the others.
FIELDS = frozenset(Task.model_fields) - {"prompt", "prompt_format", "environment"}


def task_from_label(
    prompt: str, label: Label, rubric: str | None = None, dataset: str = ""
) -> Task:
    """Return the task described by `label`; its id is a digest of its content.

    A text or a number is the reference. An object, or the JSON of an object, has fields of a task:
    `reference`, `gold`, `tests`, `checks`, `code_prefix`, `tags`, `rubric`, ...; null fields do
    not count. An object without any task field is a reference in JSON.

    Args:
        rubric: overrides the rubric of the label.

    Raises:
        InvalidInput: no rubric is named, or a task has no such field; the error names the field.
    """
    fields = _fields(label)
    if rubric is not None:
        fields["rubric"] = rubric
    if "rubric" not in fields:
        raise InvalidInput("no rubric is given, and the label names none", field="rubric")
    content = json.dumps([prompt, fields], sort_keys=True, default=str)
    named = {
        "id": hashlib.sha256(content.encode()).hexdigest()[:16],
        "dataset": dataset,
        "role": Role.TRAIN,
        "prompt": prompt,
    }
    return validated(Task, named | fields, "label")


def _fields(label: Label) -> dict[str, Any]:
    if label is None:
        return {}
    found = _object(label)
    known = {name: value for name, value in found.items() if value is not None}
    if not known.keys() & FIELDS:
        return {"reference": label if isinstance(label, str) else json.dumps(found or label)}
    unknown = sorted(known.keys() - FIELDS)
    if unknown:
        raise InvalidInput(
            "a task has no such field", field=f"label.{unknown[0]}", hint=f"known: {_KNOWN}"
        )
    return known


def _object(label: Label) -> dict[str, Any]:
    if isinstance(label, Mapping):
        return dict(label)
    if not isinstance(label, str) or not label.lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(label)
    except json.JSONDecodeError:
        return {}  # a reference that happens to start like an object: a set, a formula
    return found if isinstance(found, dict) else {}


_KNOWN = ", ".join(sorted(FIELDS))
